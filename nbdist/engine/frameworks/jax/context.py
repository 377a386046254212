"""JAX's mesh in context on the main thread, kept where other threads can read it.

`jax.set_mesh` and `with mesh:` set values that belong to the thread. A probe thread always sees none, so
the main thread notes them: at each start and end of a cell, and whenever JAX sets them.
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
      thread: `threading.Thread.ident` of the thread whose context counts.
    """

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._noted: weakref.ref[Any] | None = None
        self._unhook: Callable[[], None] | None = None

    def mesh(self) -> Any | None:
        """The `jax.sharding.Mesh` last noted; None where there is none. For any thread."""
        noted = self._noted
        return noted() if noted is not None else None

    def note(self) -> None:
        """Notes the mesh in context; does nothing on other threads. Also hooks in when it can."""
        self.hook()
        if threading.get_ident() == self._thread:
            mesh = mesh_in_context()
            self._noted = weakref.ref(mesh) if mesh is not None else None

    def hook(self) -> bool:
        """Has every change noted from now on; False while JAX is not imported or offers no place."""
        if self._unhook is None:
            self._unhook = hook_changes(self.note)
        return self._unhook is not None

    def unhook(self) -> None:
        """Leaves JAX as it was."""
        if self._unhook is not None:
            self._unhook()
            self._unhook = None


def mesh_in_context() -> Any | None:
    """The calling thread's mesh in context; None where there is none.

    Private API: `jax._src.mesh` for both kinds of context, since the public `jax.sharding.get_mesh()` raises
    while a function is traced and knows nothing of `with mesh:`. Without it the answer is None.
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
    """Has `note` called, on the thread concerned, after each change of the mesh in context.

    Returns:
      A function that takes the hook away; None where it could not be placed: JAX is not (wholly) imported,
      or these methods are gone. The mesh is then known at cell start and end only.

    Private API: the methods of `jax.set_mesh`, a class in jax 0.10 though documented as a function; and,
    for the deprecated `with mesh:`, the assignment to `thread_resources.env`. (Around `Mesh.__enter__` its
    deprecation warning would no longer point to the user's line.) JAX offers no event for it.
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
            if own is None:  # it was inherited
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
