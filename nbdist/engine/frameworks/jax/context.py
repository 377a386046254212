"""JAX's mesh in context on the main thread, kept where other threads can read it.

`jax.set_mesh` and `with mesh:` set values that belong to the thread, which a probe thread cannot see. The main
thread therefore notes the mesh: at each start and end of a cell, and whenever JAX sets it.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any


class ContextMesh:
    """The mesh in context on one thread; keeps no mesh alive.

    Args:
      thread: `threading.Thread.ident` of the thread whose mesh in context is noted.
    """

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._noted: weakref.ref[Any] | None = None
        self._unhook: Callable[[], None] | None = None

    def mesh(self) -> Any | None:
        """Return the `jax.sharding.Mesh` last noted; None if there is none. May be called on any thread."""
        noted = self._noted
        return noted() if noted is not None else None

    def note(self) -> None:
        """Note the mesh in context, only on the noted thread; also hook into JAX where possible."""
        self.hook()
        if threading.get_ident() == self._thread:
            mesh = mesh_in_context()
            self._noted = weakref.ref(mesh) if mesh is not None else None

    def hook(self) -> bool:
        """Note every change from now on; return False while JAX is not imported or cannot be hooked."""
        if self._unhook is None:
            self._unhook = hook_changes(self.note)
        return self._unhook is not None

    def unhook(self) -> None:
        """Restore JAX to what it was without hooks."""
        if self._unhook is not None:
            self._unhook()
            self._unhook = None


def mesh_in_context() -> Any | None:
    """Return the mesh in context on the calling thread; None if there is none.

    Private API: `jax._src.mesh` for both kinds of context, since the public `jax.sharding.get_mesh()` raises
    while a function is traced and does not see `with mesh:`. Without the private module the answer is None.
    """
    module = sys.modules.get("jax._src.mesh")
    try:
        mesh = module.get_concrete_mesh()  # type: ignore[union-attr]
        if mesh.empty:
            mesh = module.thread_resources.env.physical_mesh  # type: ignore[union-attr]
        return None if mesh.empty else mesh
    except AttributeError:
        return None


def hook_changes(note: Callable[[], None]) -> Callable[[], None] | None:
    """Install hooks that call `note` after each change of the mesh in context, on the thread that changes it.

    Returns:
      A function that removes the hook. None if JAX cannot be hooked, since it is not fully imported or these
      methods are gone: the mesh is then known at cell start and end only.

    Private API: the methods of `jax.set_mesh`, a class in jax 0.10 though documented as a function; and,
    for the deprecated `with mesh:`, the assignment to `thread_resources.env`. (With a hook around
    `Mesh.__enter__`, its deprecation warning would not point to the user's line.) JAX offers no event for this.
    """
    jax = sys.modules.get("jax")
    if jax is None or getattr(jax.__spec__, "_initializing", False):
        return None
    set_mesh = getattr(jax, "set_mesh", None)
    places = [(set_mesh, "__init__"), (set_mesh, "__exit__")]
    if not all(isinstance(cls, type) and name in vars(cls) for cls, name in places):
        return None
    older = getattr(sys.modules.get("jax._src.mesh"), "thread_resources", None)
    if older is not None:
        places.append((type(older), "__setattr__"))
    before = [(cls, name, vars(cls).get(name)) for cls, name in places]

    for cls, name, _ in before:
        setattr(cls, name, _noting(getattr(cls, name), note))

    def unhook() -> None:
        for cls, name, own in before:
            if own is None:  # the method was inherited
                delattr(cls, name)
            else:
                setattr(cls, name, own)

    return unhook


def _noting(original: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        result = original(*args, **options)
        note()
        return result

    return method
