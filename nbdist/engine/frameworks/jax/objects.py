"""Objects of JAX and Flax other than arrays: what they hold, and how they reach a new process.

Walks over the user's objects look into Flax's containers and modules and into registered pytrees. A process that
takes another's place gets jitted functions, registered classes and JAX's configuration. Flax is looked up in
`sys.modules`; where it has not been imported there is nothing to find.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from nbdist.engine.frameworks import libraries, packages
from nbdist.engine.frameworks.jax.private import PYTREES, STATE_DICTS, frozen_items
from nbdist.engine.namespace.things import (
    PLAIN,
    Carried,
    Fixed,
    Mine,
    Objects,
    ThingFamily,
    ThingKind,
    name_of,
)
from nbdist.engine.probe.classes import Lent, Library, Look
from nbdist.engine.probe.walk import Bounds, Walk
from nbdist.engine.values.arrays import Children, Parts


class Configuration:
    """The options of `jax.config`, except devices, addresses and files of one process."""

    def read(self) -> Mapping[str, Any]:
        """Return the values of the options by name; a value that is not plain only as text."""
        values = getattr(sys.modules["jax"].config, "values", {})
        return {
            name: value if type(value) in PLAIN else Fixed(setting_text(value))
            for name, value in values.items()
            if name not in PLACES
        }

    def write(self, name: str, value: Any) -> None:
        """Set one option of `jax.config`."""
        sys.modules["jax"].config.update(name, value)


def pytrees(mine: Mine) -> ThingFamily:
    """Return the user's classes that are registered as pytrees, each with how it was registered."""

    def registered() -> dict[str, Any]:
        registry = PYTREES.get() or {}
        return {
            name_of(kind): Carried(text(kind, entry), (kind, *_how(entry)))
            for kind, entry in list(registry.items())
            if kind in mine
        }

    def register(_: str, value: Any) -> None:
        kind, how, arguments = value
        registry = PYTREES.get() or {}
        if kind not in registry:
            getattr(sys.modules["jax"].tree_util, how)(kind, *arguments)

    def text(kind: type, entry: Any) -> str:
        how, arguments = _how(entry)
        return f"{mine.text(kind)} {how} {[name_of(a) if callable(a) else a for a in arguments]}"

    return ThingFamily("pytree ", registered, register)


def _how(entry: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the function of `jax.tree_util` that registered a class, and its arguments after the class."""
    flatten, unflatten = entry
    inside = inspect.getclosurevars(flatten).nonlocals if inspect.isfunction(flatten) else {}
    if {"data_fields", "meta_fields"} <= inside.keys():
        return "register_dataclass", (list(inside["data_fields"]), list(inside["meta_fields"]))
    if "flatten_with_keys" in inside:
        return "register_pytree_with_keys", (inside["flatten_with_keys"], unflatten)
    return "register_pytree_node", (flatten, unflatten)


def flax_states(mine: Mine) -> ThingFamily:
    """Return the functions with which Flax saves and restores instances of the user's classes."""

    def registered() -> dict[str, Any]:
        found: dict[type, tuple[Callable[..., Any], ...]] = dict(STATE_DICTS.get() or {})
        return {
            name_of(kind): Carried(mine.text(kind), (kind, *functions))
            for kind, functions in found.items()
            if kind in mine
        }

    def register(_: str, value: Any) -> None:
        import flax.serialization

        kind, save, restore = value
        flax.serialization.register_serialization_state(kind, save, restore, override=True)  # type: ignore[no-untyped-call]

    return ThingFamily("Flax's state of ", registered, register)


class JaxObjects(Objects):
    """JAX's objects and registrations, for the transfer of a namespace to a new process."""

    modules: tuple[str, ...] = ("flax.struct",)

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle a jitted function with its attributes, which its own pickle leaves out.

        Among the attributes are `__wrapped__` and those that `lower` needs.
        """
        if type(value) is not _jitted_type():
            return None
        reduced: Any = value.__reduce_ex__(4)
        make, arguments, state = reduced[:3]
        return make, arguments, (state, dict(value.__dict__)), None, None, fill

    def things(self, mine: Mine) -> Sequence[ThingKind]:
        """Return JAX's configuration, the user's pytrees, and how Flax saves the user's classes."""
        return Configuration(), pytrees(mine), flax_states(mine)

    @contextlib.contextmanager
    def unpickling(self) -> Iterator[None]:
        """Return a context in which new subclasses of `flax.struct.PyTreeNode` are not registered as pytrees.

        Unpickling makes a class first and its fields later; JAX would keep it registered as a pytree without
        fields. `pytrees` registers the classes when they are complete.
        """
        base: Any = getattr(sys.modules.get("flax.struct"), "PyTreeNode", object)
        before = vars(base).get("__init_subclass__")
        if base is object or before is None:
            yield
            return
        base.__init_subclass__ = classmethod(lambda cls, **options: None)
        try:
            yield
        finally:
            base.__init_subclass__ = before


def fill(function: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """Give an empty jitted function the state and the attributes it had on the other process."""
    own, attributes = state
    function.__setstate__(own)
    function.__dict__.update(attributes)


@functools.cache
def _jitted_type() -> type:
    import jax

    return type(jax.jit(lambda: None))


def look_into(bases: tuple[type, ...]) -> Look | None:
    """Return a function that lists what a container of Flax holds; None for any other class.

    The function imports nothing and runs no code that users wrote.

    Args:
      bases: The class and its bases, in order of resolution.
    """
    nnx = sys.modules.get("flax.nnx")
    for name, look in (("Variable", _variable), ("State", _state), ("List", _list)):
        if _is_one_of(bases, getattr(nnx, name, None)):
            return look
    if _is_one_of(bases, getattr(sys.modules.get("flax.core"), "FrozenDict", None)):
        return _frozen_dict
    return None


def is_module(bases: tuple[type, ...]) -> bool:
    """Return whether a class is an NNX module or another NNX object that holds arrays in attributes."""
    return _is_one_of(bases, getattr(sys.modules.get("flax.nnx"), "Pytree", None))


def unwrapped(value: Any) -> Any:
    """Return the array that an NNX Variable holds; anything else as it is."""
    if not _is_one_of(type(value).__mro__, getattr(sys.modules.get("flax.nnx"), "Variable", None)):
        return value
    return next((held for rest, held in _variable(value) if not rest), value)


def state_of_module(value: object) -> Any | None:
    """Return the state of an NNX module, sent in its place as the notebook may lack its class; None for others."""
    nnx = sys.modules.get("flax.nnx")
    module = getattr(nnx, "Module", None)
    if nnx is None or module is None or not isinstance(value, module):
        return None
    return state(value)


title = "JAX"


def keeps_its_own(value: Any) -> bool:
    """Return whether a value is an NNX module or another NNX object that holds arrays in attributes."""
    return is_module(type(value).__mro__)


def state(value: Any) -> Any:
    """Return the state of an NNX object, as a pytree."""
    return sys.modules["flax.nnx"].state(value)


def set_state(value: Any, state: Any) -> None:
    """Give an NNX object the arrays of a state that `state` has returned."""
    sys.modules["flax.nnx"].update(value, state)


def _is_one_of(bases: tuple[type, ...], wanted: object) -> bool:
    return wanted is not None and any(base is wanted for base in bases)


def _variable(variable: Any) -> Iterable[tuple[str, Any]]:
    # Called through the class: a Variable looks up unknown attributes in its value.
    get = getattr(sys.modules["flax.nnx"].Variable, "get_raw_value", None)
    if get is None:  # before flax 0.12
        return []
    value = get(variable)
    jax = sys.modules.get("jax")
    # A Variable with an array is used like the array, also in Flax's own calls, without `[...]` or `.value`.
    whole = jax is not None and any(base is jax.Array for base in type(value).__mro__)
    return [("" if whole else ".get_value()", value)]


def _state(state: Any) -> Iterable[tuple[str, Any]]:
    mapping = getattr(sys.modules["flax.nnx"].State, "raw_mapping", None)
    return _items(mapping.fget(state)) if mapping is not None else []


def _list(items: Any) -> Iterable[tuple[str, Any]]:
    # NNX keeps the items of a List as attributes '0', '1', and so on.
    return [(f"[{name}]", value) for name, value in list(vars(items).items()) if name.isdecimal()]


def _frozen_dict(frozen: Any) -> Iterable[tuple[str, Any]]:
    """Return the items of a Linen `FrozenDict`."""
    return _items(frozen_items(frozen))


def _items(mapping: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
    return [
        (f"[{key!r}]", value) for key, value in list(dict.items(mapping)) if type(key) in (str, int)
    ]


class JaxLibrary(Library):
    """Library of the classes that hold JAX arrays: Flax's containers and modules, and registered pytrees.

    Modules are shown as trees of arrays, not as models.
    """

    def look_into(self, bases: tuple[type, ...]) -> Look | None:
        """Return a function that lists what Flax's own containers hold."""
        return look_into(bases)

    def holds_arrays(self, cls: type, bases: tuple[type, ...]) -> bool:
        """Return whether a class is a pytree or a module of Flax."""
        return is_pytree(cls) or is_module(bases)


def is_pytree(cls: type) -> bool:
    """Return whether a class is registered with `jax.tree_util`; runs no code of the class."""
    registry = PYTREES.get()
    return isinstance(registry, dict) and cls in registry


def children(value: Any) -> Children | None:
    """Return what a container of Flax, or a pytree that is no dataclass, holds on one level; None for others.

    The static part of a pytree is one more child, named `<static>`.
    """
    cls = type(value)
    look = look_into(cls.__mro__)
    if look is not None:
        return look(value)
    if dataclasses.is_dataclass(value) or not is_pytree(cls):
        return None
    tree_util = sys.modules["jax"].tree_util
    pairs, definition = tree_util.tree_flatten_with_path(
        value, is_leaf=lambda inner: inner is not value
    )
    _, static = definition.node_data()
    return [*((tree_util.keystr(keys), child) for keys, child in pairs), ("<static>", static)]


class JaxParts(Parts):
    """Parts of values of JAX and Flax."""

    unwrapped = staticmethod(unwrapped)
    stand_in = staticmethod(state_of_module)
    children = staticmethod(children)


def array_paths(namespace: dict[str, object], arrays: type) -> dict[str, Any]:
    """Return the arrays of a namespace by the path that reaches each, within the default bounds of a walk.

    A running `fit` of Keras takes the values out of variables. Such a variable counts with its array of the last
    step; it is left out where that array is out of reach.
    """
    found: dict[str, Any] = {}

    def note(path: str, value: Any) -> bool:
        array = value.array if type(value) is Lent else value
        if isinstance(array, arrays):
            found[path] = array
        return True

    Walk(
        found=note,
        mesh=lambda mesh: None,
        arrays=(arrays,),
        meshes=(),
        packages=packages(),
        libraries=libraries(),
        bounds=Bounds(),
    ).run(namespace)
    return found


PLACES = frozenset(
    {
        # Devices and addresses of one process.
        *("jax_num_cpu_devices", "jax_cuda_visible_devices", "jax_rocm_visible_devices"),
        *("jax_oneapi_visible_devices", "jax_cross_host_transfer_socket_address"),
        "jax_cross_host_transport_addresses",
        # Files of one host.
        *("jax_compilation_cache_dir", "jax_dump_ir_to", "jax_mtls_ca_file"),
        *("jax_mtls_cert_file", "jax_mtls_key_file"),
    }
)
"""Settings of JAX that belong to one process or its host."""


def setting_text(value: Any) -> str:
    """Return the value of a setting as text without memory addresses.

    A device is named by its platform, since each process has devices of its own.
    """
    if isinstance(value, Enum):
        return value.name
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(setting_text, value))})"
    if isinstance(value, dict):
        return str({str(key): setting_text(one) for key, one in sorted(value.items())})
    platform = getattr(value, "platform", None)
    return f"a {platform} device" if isinstance(platform, str) else f"a {type(value).__name__}"
