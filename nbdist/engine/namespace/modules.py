"""The user's modules on their way to a process that takes another's place, and what cells have patched in others.

The new process imports them; what they then are there is compared with what they are on the one that has lived on,
function by function and value by value, since their files may have changed, and cells may have set something in
them. A module whose code differs goes along by value, of others the values that differ.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbdist.engine.agreement.modules import version
from nbdist.engine.cell.showable import error_text
from nbdist.engine.namespace.things import PLAIN, Carried, Fixed, Mine, name_of
from nbdist.engine.probe.code import code_digest

CODE = "code of "
"""Begins the name of what a module's functions and classes do."""

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
"""Packages that nbdist itself computes with: what was patched in them is named, and not set elsewhere."""

HIDDEN = frozenset({"__builtins__", "__cached__", "__loader__", "__spec__", "__file__", "__path__"})
"""What Python keeps in a module for itself, different in each process."""


def values_of(module: types.ModuleType, mine: Mine) -> dict[str, Any]:
    """What a module holds beside functions, classes and other modules."""
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
    """Texts by the name of each thing in these modules.

    Args:
      modules: The user's, by name.
      mine: Tells what the user has written.
      look: Gives digests of values by name; none of what cannot be looked at.
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
    """What its functions do, with their defaults, and which plain values its classes have."""
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
    """Return where a module comes from, as its own names say it."""
    return {
        name: list(value) if name == "__path__" else value
        for name, value in vars(module).items()
        if name in ("__file__", "__path__")
    }


def imported(places: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Imports modules; those that cannot be imported are made, empty, for what comes by value.

    Args:
      places: By the names of the modules, as `places_of` gives them.

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
    """While it is open, functions and classes of these modules are pickled as they are, not by their names."""
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
"""By module whether all of it goes along, and the values."""


def whole(things: Collection[str]) -> list[str]:
    """The modules whose code is among these things."""
    return [thing.removeprefix(CODE) for thing in things if thing.startswith(CODE)]


def taken_along(things: Collection[str], goes: Callable[[Any], bool]) -> Taken:
    """What of modules goes along, of these things: of a module whose code does, everything it holds.

    Args:
      things: By their names.
      goes: Whether a value can be pickled.
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
    """Sets what has come in modules that have been imported."""
    for name, (everything, values) in taken.items():
        its = vars(sys.modules[name])
        if everything:
            for extra in [n for n in its if n not in values and not n.startswith("__")]:
                del its[extra]
        its.update(values)


Constants = Mapping[str, Mapping[str, Any]]
"""Numbers with names in capitals, by the name of the library's module."""


def unlike(constants: Constants) -> dict[str, Any]:
    """Return those that this process has otherwise; a module that it has not imported has none."""
    return {
        f"{name}.{key}": its.get(key)
        for name, values in constants.items()
        if (its := getattr(sys.modules.get(name), "__dict__", None)) is not None
        for key, value in values.items()
        if repr(its.get(key)) != repr(value)
    }


class Patches:
    """Functions, classes and objects of the user's that stand in modules and classes of libraries.

    Args:
      mine: Tells what the user has written.

    Attributes:
      constants: Those of libraries, once it has been read.
    """

    PREFIX = "patched "

    def __init__(self, mine: Mine) -> None:
        self._mine, self._modules = mine, {*mine.modules, "__mp_main__", "builtins"}
        self.constants: dict[str, dict[str, Any]] = {}

    def read(self) -> Mapping[str, Any]:
        """See `Things`."""
        self.constants = {}
        found = {}
        for path, owner, name, value in self._every():
            if path == "sys" and name.startswith("last_"):
                continue  # the error of the cell that has failed last
            package = path.partition(".")[0]
            text = self._mine.text(value)
            sent = Fixed(text) if package in SAID else Carried(text, (owner, name, value))
            found[f"{self.PREFIX}{path}.{name}"] = sent
        return found

    def write(self, name: str, value: Any) -> None:
        """See `Things`."""
        (module, *path), attribute, patched = value
        owner = importlib.import_module(module)
        for one in path:
            owner = getattr(owner, one)
        setattr(owner, attribute, patched)

    def _every(self) -> Iterator[tuple[str, tuple[str, ...], str, Any]]:
        """Where it stands, as text and as path, under which name, and what it is."""
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
                elif isinstance(value, type) and vars_of(value).get("__module__") == name:
                    for inner, member in list(vars_of(value).items()):
                        if can_be[type(member)] and is_mine(member):
                            yield f"{name}.{key}", (name, key), inner, member

    def _is_mine(self, value: Any) -> bool:
        kind = type(value)
        if kind is staticmethod or kind is classmethod:
            value = value.__func__
            kind = type(value)
        if kind is types.FunctionType:
            # ipyparallel makes functions of its own into some of `__main__`.
            return (
                value.__module__ in self._mine.modules
                and "ipyparallel" not in Path(value.__code__.co_filename).parts
            )
        if isinstance(value, type):
            return vars_of(value).get("__module__") in self._mine.modules
        if vars_of(kind).get("__module__") in self._mine.modules:
            return True
        # What a decorator such as `jax.jit` has made of one.
        inner = getattr(value, "__dict__", None) if kind.__module__ == "jaxlib._jax" else None
        return (
            isinstance(inner, dict)
            and getattr(inner.get("__wrapped__"), "__module__", None) in self._mine.modules
        )


class _CanBeMine(dict[type, bool | None]):
    """Whether a value of a type can be the user's, or what decorators make of that; None of numbers.

    Args:
      mine: Tells what the user has written.
    """

    def __init__(self, mine: Mine) -> None:
        self._mine = mine
        self.update(dict.fromkeys((bool, int, float, complex)))

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = (
            kind in (types.FunctionType, staticmethod, classmethod)
            or issubclass(kind, type)
            or kind.__module__ == "jaxlib._jax"
            or vars_of(kind).get("__module__") in self._mine.modules
        )
        return found


vars_of = type.__dict__["__dict__"].__get__
