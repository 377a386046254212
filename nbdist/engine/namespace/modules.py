"""The user's modules, and what cells have patched in other modules, for a process that replaces another.

The new process imports the user's modules. Their functions and values there are then compared, one by one, with
those on the process that has lived on: files may have changed, and cells may have set something in a module. A
module whose code differs is sent by value; of other modules the values that differ are sent. So are new names in
`builtins`, and the user's functions in `copyreg`.
"""

from __future__ import annotations

import contextlib
import copyreg
import importlib
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbdist.engine.agreement.reads import version
from nbdist.engine.namespace.things import PLAIN, Carried, Fixed, Mine, ThingFamily, name_of
from nbdist.engine.probe.classes import class_dict, code_digest
from nbdist.errors import error_text

CODE = "code of "
"""The beginning of the name of the thing that stands for a module's code, its functions and classes."""

SAID = frozenset(
    {
        "numpy",
        "jax",
        "jaxlib",
        "keras",
        "tensorflow",
        "nbdist",
        "IPython",
        "ipykernel",
        "ipyparallel",
    }
)
"""Packages that nbdist itself computes with: patches in them are reported, and not set on another process."""

HIDDEN = frozenset({"__builtins__", "__cached__", "__loader__", "__spec__", "__file__", "__path__"})
"""Names that Python keeps in a module for itself, different in each process."""


def values_of(module: types.ModuleType, mine: Mine) -> dict[str, Any]:
    """Return the values of a module other than functions, classes and modules."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in HIDDEN
        and not issubclass(type(value), (types.ModuleType, type))
        and code_digest(value, mine.modules) is None
        and type(value) not in (types.FunctionType, types.BuiltinFunctionType)
    }


def described(
    modules: Mapping[str, types.ModuleType],
    mine: Mine,
    look: Callable[[Mapping[str, Any]], Mapping[str, str]],
) -> dict[str, str]:
    """Return a text for each thing in these modules, by name.

    Args:
      modules: The user's, by name.
      mine: Tells what the user has written.
      look: Returns digests of values by name; none for a value that cannot be looked at.
    """
    found = {}
    for name, module in modules.items():
        found[CODE + name] = _code(module, mine)
        values = values_of(module, mine)
        looked = look({one: value for one, value in values.items() if type(value) not in PLAIN})
        for one, value in values.items():
            text = mine.text(value) if type(value) in PLAIN else looked.get(one)
            found[f"{name}.{one}"] = text or f"a {name_of(type(value))}"
    return found


def _code(module: types.ModuleType, mine: Mine) -> str:
    """Return a text of a module's code: its functions, their defaults, and plain values in its classes."""
    classes = [
        value
        for value in vars(module).values()
        if issubclass(type(value), type) and value.__module__ == module.__name__
    ]
    values = [
        (cls.__qualname__, name, mine.text(value))
        for cls in classes
        for name, value in sorted(vars(cls).items())
        if type(value) in PLAIN and not name.startswith("__")
    ]
    functions = [
        (name, mine.text(value), mine.text([value.__defaults__, value.__kwdefaults__]))
        for name, value in sorted(vars(module).items())
        if type(value) is types.FunctionType
    ]
    return f"{version(module, mine.modules)} {sorted(values)} {functions}"


def places_of(module: types.ModuleType) -> dict[str, Any]:
    """Return the names of a module that say where it comes from: `__file__` and `__path__`."""
    return {
        name: list(value) if name == "__path__" else value
        for name, value in vars(module).items()
        if name in ("__file__", "__path__")
    }


def imported(places: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Import modules; make an empty one in place of one that cannot be imported, for values that are sent.

    Args:
      places: By the names of the modules, as `places_of` returns them.

    Returns:
      Why a module could not be imported, by name.
    """
    importlib.invalidate_caches()
    failed = {}
    for name, its in places.items():
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own
            failed[name] = error_text(error)
            made = sys.modules[name] = types.ModuleType(name)
            vars(made).update(its)
            above, _, last = name.rpartition(".")
            if above in sys.modules:
                setattr(sys.modules[above], last, made)
    return failed


@contextlib.contextmanager
def by_value(names: Collection[str]) -> Iterator[None]:
    """Pickle functions and classes of these modules by value, not by name, while the context is open."""
    import cloudpickle

    new = [
        n
        for n in names
        if n in sys.modules and n not in cloudpickle.list_registry_pickle_by_value()
    ]
    for name in new:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    try:
        yield
    finally:
        for name in new:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])


Taken = Mapping[str, tuple[bool, Mapping[str, Any]]]
"""For each module, whether all of it is sent, and the values."""


def whole(things: Collection[str]) -> list[str]:
    """Return the modules whose code is among these things."""
    return [thing.removeprefix(CODE) for thing in things if thing.startswith(CODE)]


def taken_along(things: Collection[str], goes: Callable[[Any], bool]) -> Taken:
    """Return the module values to send: these things, and all of a module if its code is among the things.

    Args:
      things: Names of the things.
      goes: Returns whether a value can be pickled.
    """
    found: dict[str, tuple[bool, dict[str, Any]]] = {}
    every = set(whole(things))
    for name in every:
        values = vars(sys.modules[name]).items()
        found[name] = True, {n: v for n, v in values if n not in HIDDEN and goes(v)}
    for thing in things:
        name, _, attribute = thing.rpartition(".")
        its = getattr(sys.modules.get(name), "__dict__", {})
        if name not in every and attribute in its and goes(its[attribute]):
            found.setdefault(name, (False, {}))[1][attribute] = its[attribute]
    return found


def put(taken: Taken) -> None:
    """Set values in imported modules; where all of a module was sent, remove its other names."""
    for name, (everything, values) in taken.items():
        its = vars(sys.modules[name])
        if everything:
            for extra in [n for n in its if n not in values and not n.startswith("__")]:
                del its[extra]
        its.update(values)


Constants = Mapping[str, Mapping[str, Any]]
"""Numbers with names in capitals, by the name of the library's module."""


def unlike(constants: Constants) -> dict[str, Any]:
    """Return constants that this process has with other values, without those of modules it has not imported."""
    return {
        f"{name}.{key}": its.get(key)
        for name, values in constants.items()
        if (its := getattr(sys.modules.get(name), "__dict__", None)) is not None
        for key, value in values.items()
        if repr(its.get(key)) != repr(value)
    }


class Patches:
    """Functions, classes and objects of the user's that cells have set in modules and classes of libraries.

    Attributes:
      constants: Constants of libraries; `read` sets them.
    """

    PREFIX = "patched "

    def __init__(self, mine: Mine) -> None:
        self._mine, self._modules = mine, {*mine.modules, "__mp_main__", "builtins"}
        self.constants: dict[str, dict[str, Any]] = {}

    def read(self) -> Mapping[str, Any]:
        """Return the patches by place and name; set `constants`."""
        self.constants = {}
        found = {}
        for path, owner, name, value in self._every():
            if path == "sys" and name.startswith("last_"):
                continue  # the error of the last cell that failed
            package = path.partition(".")[0]
            text = self._mine.text(value)
            sent = Fixed(text) if package in SAID else Carried(text, (owner, name, value))
            found[f"{self.PREFIX}{path}.{name}"] = sent
        return found

    def write(self, name: str, value: Any) -> None:
        """Set a patch."""
        (module, *path), attribute, patched = value
        owner = importlib.import_module(module)
        for one in path:
            owner = getattr(owner, one)
        setattr(owner, attribute, patched)

    def _every(self) -> Iterator[tuple[str, tuple[str, ...], str, Any]]:
        """Yield each patch: where it stands, as text and as path, its name, and its value."""
        # There are 130,000 values, nearly all of a few types.
        can_be, is_mine, constants = _CanBeMine(self._mine), self._is_mine, self.constants
        for name, module in list(sys.modules.items()):
            if name in self._modules or not isinstance(module, types.ModuleType):
                continue
            for key, value in list(vars(module).items()):
                kind = can_be[type(value)]
                if not kind:
                    if kind is None and key.isupper() and key[0] != "_":
                        constants.setdefault(name, {})[key] = value
                elif is_mine(value):
                    yield name, (name,), key, value
                elif isinstance(value, type) and class_dict(value).get("__module__") == name:
                    for inner, member in list(class_dict(value).items()):
                        if can_be[type(member)] and is_mine(member):
                            yield f"{name}.{key}", (name, key), inner, member

    def _is_mine(self, value: Any) -> bool:
        kind = type(value)
        if kind is staticmethod or kind is classmethod:
            value = value.__func__
            kind = type(value)
        if kind is types.FunctionType:
            # ipyparallel gives functions of its own the module `__main__`.
            return (
                value.__module__ in self._mine.modules
                and "ipyparallel" not in Path(value.__code__.co_filename).parts
            )
        if isinstance(value, type):
            return class_dict(value).get("__module__") in self._mine.modules
        if class_dict(kind).get("__module__") in self._mine.modules:
            return True
        # A decorator such as `jax.jit` may have wrapped a function of the user's.
        inner = getattr(value, "__dict__", None) if kind.__module__ == "jaxlib._jax" else None
        return (
            isinstance(inner, dict)
            and getattr(inner.get("__wrapped__"), "__module__", None) in self._mine.modules
        )


class _CanBeMine(dict[type, bool | None]):
    """By type, whether a value can be the user's, or a decorator's wrapper of the user's; None for numbers."""

    def __init__(self, mine: Mine) -> None:
        self._mine = mine
        self.update(dict.fromkeys((bool, int, float, complex)))

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = (
            kind in (types.FunctionType, staticmethod, classmethod)
            or issubclass(kind, type)
            or kind.__module__ == "jaxlib._jax"
            or class_dict(kind).get("__module__") in self._mine.modules
        )
        return found


NAMES_OF_IPYTHON = frozenset({"_", "get_ipython", "display"})


def new_builtins(before: frozenset[str]) -> ThingFamily:
    """Return the names that were put into `builtins` since the start, with their values."""
    now = vars(sys.modules["builtins"])
    return ThingFamily(
        "builtins.",
        lambda: {name: now[name] for name in sorted(now.keys() - before - NAMES_OF_IPYTHON)},
        lambda name, value: now.update({name: value}),
    )


def reducers(mine: Mine) -> ThingFamily:
    """Return `copyreg`'s functions that pickle objects, where the function or the class is the user's."""
    return ThingFamily(
        "pickling of ",
        lambda: {
            name_of(kind): (kind, reduce)
            for kind, reduce in copyreg.dispatch_table.items()
            if kind in mine or reduce in mine
        },
        lambda _, value: copyreg.pickle(*value),
    )
