"""The frameworks on an engine: one folder for each, found by its name, as a set of capabilities.

No module outside this package imports a framework's folder. Other modules call `framework_named(name)` or
`each(capability)`, and use the fields of `Framework`: one for each capability, with None or a refusal where a
framework lacks it. A capability is a function, or several functions with the names of a protocol in `interfaces`.
In the second case the field holds a function that imports and returns them; usually they are the functions of a
module.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from nbdist.contract.calls.engine import EmptyStage
from nbdist.engine.cell.stacks import packages_of
from nbdist.engine.frameworks.interfaces import (
    NoArrayRecovery,
    NoArrays,
    NoCluster,
    NoInspection,
    not_moved,
)
from nbdist.engine.values import arrays
from nbdist.errors import SessionError
from nbdist.machine import checkup

if TYPE_CHECKING:
    from nbdist.contract.calls.engine import Initialized
    from nbdist.engine.agreement import Comparer
    from nbdist.engine.frameworks.interfaces import (
        ArrayRecovery,
        Arrays,
        ClusterState,
        Inspection,
        Placing,
        Plans,
        ThisProcess,
        Trees,
    )
    from nbdist.engine.namespace.things import Objects
    from nbdist.engine.probe.classes import Library
    from nbdist.engine.probe.observer import ModelObserver, Observer
    from nbdist.engine.probe.samples import SeenArray
    from nbdist.engine.saving.parts import Keeper
    from nbdist.engine.values.arrays import Parts

C = TypeVar("C")
Load = Callable[[], C]
"""Imports a capability and returns it."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The modules of a framework's package, each imported when a capability is asked for.

    Attributes:
      package: The name of the package.
    """

    package: str

    def module(self, name: str) -> Callable[[], Any]:
        """Return a function that imports a module and returns it."""
        return lambda: importlib.import_module(f"{self.package}.{name}")

    def function(self, module: str, name: str) -> Callable[..., Any]:
        """Return a function that imports a module and calls its function or class of this name."""
        load = self.module(module)
        return lambda *args, **options: getattr(load(), name)(*args, **options)


def _nothing() -> None:
    return None


def _compiles_nothing(path: str, function: str) -> bool:
    return False


def _cannot_join(process: ThisProcess, stage: Any) -> Initialized:
    raise SessionError(f"process {process.process_id} has no framework yet.")


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One framework; each package in `nbdist.engine.frameworks` has one as `FRAMEWORK`.

    Making it and `is_imported` import nothing outside the standard library. No capability starts a back end,
    except `initialize` and `Repairs.rejoin`.

    Attributes:
      name: The name, as `%dist_init --framework` takes it.
      title: The name, as people write it.
      packages: The first parts of the names of its modules; the first entry is the package that users import.
      imported_as: The packages whose import makes it a framework of this process; empty: the first of `packages`.
      builds_on: The name of the framework whose arrays it uses; None where it has its own.
      waits: Functions of nbdist that poll, as `nbdist.engine.cell.stacks.Owner` describes them.
      is_compiling: Whether a function of the framework traces, lowers or compiles, as `Owner` asks.
      stage: The type of the `stage` of `initialize`: a dataclass of `contract/calls/engine.py`, or a union.
      initialize: Joins the cluster; blocks until all processes have joined. Returns facts for the launch side's
        `check`, `summary` and `remarks`; where it has set `process.step`, also the `ports` at which other
        processes connect. Raises `SessionError` with what to type where the process cannot join.
      store: Returns the store of all processes (`key_value_set`, `key_value_dir_get`); None if there is none.
      install: Makes IPython show the framework's arrays; called while an engine is made ready, before any import.
      holds: Returns the platform of the devices held in this process; empty if not known, None if none are held.
      objects: Returns how objects and settings go to a new process; None: all are pickled in their own way.
      library: Returns the library of the framework, one for each observer or walk.
      observer: Returns an observer of its arrays, from the ident of the main thread and the process id.
      model_observer: Returns an observer of its models, from the ident of the main thread and the library.
      model_glance: Returns the description of a model by its variables, without values; None for anything else.
      comparer: Returns this process's comparer of arrays and settings before a cell.
      not_saved: What to use instead, where variables are not saved by shard.
      mesh_over: Returns a slice's devices as an array in the shape of a mesh, from the sizes of its axes and the
        devices or stand-ins with their place and kind, and whether a dimension had to be split. None where it
        cannot lay this one.
    """

    name: str = ""
    title: str = ""
    packages: tuple[str, ...] = ()
    imported_as: tuple[str, ...] = ()
    builds_on: str | None = None
    waits: Mapping[tuple[str, str], str] = field(default_factory=dict)
    is_compiling: Callable[[str, str], bool] = _compiles_nothing

    # Of the framework that the session computes with.
    stage: Any = EmptyStage
    initialize: Callable[[ThisProcess, Any], Initialized] = _cannot_join
    cluster: Load[ClusterState] = NoCluster
    store: Callable[[], Any | None] = _nothing
    arrays: Load[Arrays] = NoArrays
    inspection: Load[Inspection] = NoInspection
    recovery: Load[ArrayRecovery] = NoArrayRecovery
    placements: Placing = not_moved

    # Of each framework that has been imported, whatever the session computes with.
    install: Callable[[Any], None] | None = None
    holds: Callable[[], str | None] = _nothing
    trees: Load[Trees] | None = None
    library: Callable[[], Library] | None = None
    observer: Callable[[int, int], Observer] | None = None
    model_observer: Callable[[int, Library], ModelObserver] | None = None
    model_glance: Callable[[object], SeenArray | None] | None = None
    comparer: Callable[[], Comparer] | None = None
    parts: Load[Parts] | None = None
    objects: Callable[[int], Objects | None] | None = None
    keeper: Load[Keeper] | None = None
    not_saved: str = ""
    plans: Load[Plans] | None = None
    mesh_over: Callable[[Sequence[int], Sequence[Any]], tuple[Any, bool] | None] | None = None

    def is_imported(self) -> bool:
        """Return whether this process has imported the framework."""
        return any(name in sys.modules for name in self.imported_as or self.packages[:1])

    def version(self) -> str | None:
        """Return the framework's version, as text; None where it is not installed."""
        found = getattr(sys.modules.get(self.packages[0]), "__version__", None)
        return str(found) if found is not None else checkup.version(self.packages[0])

    def configure(self, environment: Mapping[str, str]) -> list[str]:
        """Apply variables that were set after the import; return the names of those that come too late."""
        return self.cluster().configure(environment) if self.is_imported() else []

    def refuse_saving(self) -> None:
        """Return if variables can be saved by shard, and raise otherwise.

        Raises:
          SessionError: They cannot; the text says what to use.
        """
        if self.keeper is None:
            text = f"Variables of {self.title} are not saved by shard."
            raise SessionError(f"{text} {self.not_saved}".strip())


def names() -> list[str]:
    """Return the names of all frameworks, in alphabetical order: each folder in this package is a framework."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


@functools.cache
def framework_named(name: str) -> Framework:
    """Return the framework of this name; import nothing outside the standard library.

    Raises:
      ImportError: No framework has this name.
    """
    found: Framework = importlib.import_module(f"{__name__}.{name}").FRAMEWORK
    return found


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Return all frameworks; each comes after the framework that it builds on."""
    return tuple(sorted(map(framework_named, names()), key=lambda one: one.builds_on is not None))


def imported() -> list[Framework]:
    """Return the frameworks that this process has imported; each comes before the framework that it builds on."""
    return [one for one in reversed(frameworks()) if one.is_imported()]


def each(capability: Callable[[Framework], Load[C] | None]) -> list[C]:
    """Return a capability of each framework that this process has imported and that has it, in that order.

    Args:
      capability: Returns the capability's field, such as `lambda one: one.plans`.
    """
    return [load() for one in imported() if (load := capability(one)) is not None]


def parts() -> list[Parts]:
    """Return how the imported frameworks take values apart; each comes before the one that it builds on."""
    return each(lambda one: one.parts)


def libraries() -> list[Library]:
    """Return the libraries of all imported frameworks, for a walk over objects."""
    return each(lambda one: one.library)


def packages() -> frozenset[str]:
    """Return the packages of all frameworks, for a walk over objects."""
    return packages_of(frameworks())


def unwrapped(value: Any) -> Any:
    """Return the array for a variable that is named by itself; anything else as it is."""
    for one in parts():
        value = one.unwrapped(value)
    return value


def array_of(value: Any) -> Any:
    """Return the array for a variable wherever it is met; anything else as it is."""
    return arrays.array_of(parts(), value)
