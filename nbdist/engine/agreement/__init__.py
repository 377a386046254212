"""Facts of a process that must be equal on all processes before they run a cell, and short digests of them.

In come a cell's text, the user's namespace, and a `Comparer` of each imported framework; no framework is imported.
Out go digests, one for each topic, and the facts themselves where digests differ, to say what differs;
`nbdist.session.cells.check` compares those of all processes. Topics are the cell's text, versions of packages and
of the user's modules, the compiler's flags, the settings, mesh and distribution of a framework, and the names that
the cell reads (`reads.py`).
"""

from __future__ import annotations

import builtins
import hashlib
import os
import shlex
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import structs

from nbdist.contract.cells import DistributionFacts, Facts, LocalArray, NameFacts, NamesFacts
from nbdist.contract.snapshot import Array, Mesh
from nbdist.engine.agreement.reads import Reads, UsersModules, names_read
from nbdist.engine.cell.stacks import Packaged, packages_of
from nbdist.engine.probe.classes import Lent, Library, code_digest
from nbdist.engine.probe.walk import Bounds, Takers, Walk
from nbdist.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Arrays of one framework that a cell reads; fields as in `nbdist.contract.cells.NamesFacts`."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    meshes: Mapping[str, Mesh] = field(default_factory=dict)
    local: Mapping[str, LocalArray | None] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


class Comparer:
    """Questions of an agreement to a framework: arrays and settings that must be equal on all processes.

    All methods are called on the main thread between cells. This base class has nothing to compare.
    """

    def begin(self) -> None:
        """Start to look at the names that a cell reads."""

    def array_classes(self) -> tuple[type, ...]:
        """Return the classes of arrays; instances of their subclasses are arrays, too."""
        return ()

    def mesh_classes(self) -> tuple[type, ...]:
        """Return the classes of meshes; `add_mesh` gets their instances."""
        return ()

    def add(self, path: str, array: Any) -> bool:
        """Note an array under a path; return False where the array does not count, such as a deleted one."""
        return False

    def add_mesh(self, mesh: Any) -> None:
        """Note a mesh that was met outside an array."""

    def found(self) -> Found:
        """Return all that was noted since `begin`."""
        return Found()

    def settings(self) -> dict[str, str] | None:
        """Return settings that change what a program computes, as text by name; None where there are none."""
        return None

    def mesh(self) -> Mesh | None:
        """Return the mesh in context; None where there is none."""
        return None

    def distribution(self) -> DistributionFacts | None:
        """Return the distribution or strategy that is set; None where none is."""
        return None


LIBRARIES = ("numpy", "flax", "optax", "equinox")
"""Packages, beside those of frameworks, that decide what a program computes."""

FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Environment variables that hold flags of the compiler."""

OWN_FLAGS = ("--xla_dump_", "--xla_force_host_platform_device_count")
"""Beginnings of flags that may differ between processes: where the compiler writes, how many devices there are."""


def software(frameworks: Iterable[str]) -> dict[str, str]:
    """Return versions by name: Python, nbdist, and the imported packages of frameworks and `LIBRARIES`."""
    found = {"Python": ".".join(map(str, sys.version_info[:3])), "nbdist": __version__}
    for name in (*frameworks, *LIBRARIES):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the compiler's flags that change what a program computes.

    Such as `{"XLA_FLAGS --xla_cpu_enable_fast_math": "false"}`. Where a flag occurs twice, the last one counts.
    """
    environ = os.environ if environ is None else environ
    found = {}
    for variable in FLAGS:
        for flag in _words(environ.get(variable, "")):
            name, _, value = flag.partition("=")
            if not name.startswith(OWN_FLAGS):
                found[f"{variable} {name}"] = value or "set"
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote
        return text.split()


_MISSING = object()


def steps(path: str, namespace: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return each step of a dotted path through modules, with its value; runs nobody's code."""
    name, *rest = path.split(".")
    value = namespace.get(name, getattr(builtins, name, _MISSING))
    found = [(name, value)]
    for step in rest:
        if type(value) is not types.ModuleType or step not in vars(value):
            break
        name, value = f"{name}.{step}", vars(value)[step]
        found.append((name, value))
    return found


def _root(path: str) -> str:
    return path.replace("[", ".").partition(".")[0]


def _type_text(value: Any) -> str | None:
    if value is _MISSING:
        return None
    cls = type(value)
    module = type.__getattribute__(cls, "__module__")
    name = str(type.__getattribute__(cls, "__qualname__"))
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


class Compared(Packaged, Protocol):
    """A framework, as an agreement sees it."""

    def is_imported(self) -> bool:
        """Return whether this process has imported the framework; until then nothing else is asked."""

    @property
    def comparer(self) -> Callable[[], Comparer] | None:
        """Returns the comparer of the framework's arrays and settings."""

    @property
    def library(self) -> Callable[[], Library] | None:
        """Returns the framework's containers, modules and models."""


class AgreementFacts:
    """The facts of one process; used on the main thread, between cells.

    Args:
      shell: IPython's shell, which rewrites cells and holds the namespace.
      frameworks: All frameworks, each after those it builds on.
    """

    def __init__(self, shell: Any, frameworks: Sequence[Compared]) -> None:
        self._shell = shell
        self._frameworks = frameworks
        self._comparers: dict[int, Comparer] = {}
        self._packages = packages_of(frameworks)
        self._modules = UsersModules()
        self._texts: dict[str, tuple[Array, str]] = {}

    def facts(self, code: str, topics: Collection[str] | None = None) -> Facts:
        """Return the facts that must be equal on all processes that run a cell.

        Args:
          code: The cell.
          topics: Names of the fields of `Facts` to fill; None for all.
        """
        source, comparers = self._rewritten(code), self._imported()
        answers: dict[str, Callable[[], Any]] = {
            "cell": lambda: hashlib.sha256(source.encode()).hexdigest()[:12],
            "software": lambda: software(sorted(self._packages)),
            "modules": self._modules.versions,
            "variables": variables,
            "settings": lambda: _first(one.settings() for one in comparers),
            "mesh": lambda: _first(one.mesh() for one in comparers),
            "distribution": lambda: _first(one.distribution() for one in comparers),
            "names": lambda: self._described(names_read(source, self._rewritten), comparers),
        }
        asked = {n: answer() for n, answer in answers.items() if topics is None or n in topics}
        return Facts(**asked)

    def digests(self, code: str) -> dict[str, str]:
        """Return a short text for each topic, equal where the facts are equal."""
        facts = self.facts(code)
        compared = {topic.name: getattr(facts, topic.name) for topic in structs.fields(facts)}
        if facts.names is not None:
            # The other fields only serve to explain a difference. Sorted, since processes may fill containers in
            # different orders.
            parts = (facts.names.names, self._array_texts(facts.names.arrays), facts.names.keys)
            compared["names"] = [[(key, part[key]) for key in sorted(part)] for part in parts]
        # `repr` is several times as fast as JSON, and the facts have no addresses in it.
        return {
            topic: hashlib.sha256(repr(fact).encode()).hexdigest()[:12]
            for topic, fact in compared.items()
        }

    def _described(self, read: Reads, comparers: Sequence[Comparer]) -> NamesFacts:
        """Return the facts of the names that a cell reads: their types, code, global arrays and keys."""
        found: dict[str, Any] = {}
        names: dict[str, NameFacts] = {}
        for path in sorted(read.certain | read.possible):
            for name, value in steps(path, self._shell.user_ns):
                known, code = names.get(name), None
                certain = path in read.certain or (known is not None and known.certain)
                if value is not _MISSING:
                    found[name] = value
                    code = code_digest(value)
                names[name] = NameFacts(type=_type_text(value), certain=certain, code=code)
        arrays = self._arrays(found, comparers)
        holders = {_root(path) for path in (*arrays.arrays, *arrays.local)}
        names = {
            name: structs.replace(known, holds=_root(name) in holders)
            for name, known in names.items()
        }
        return structs.replace(arrays, names=names)

    def _arrays(self, values: dict[str, Any], comparers: Sequence[Comparer]) -> NamesFacts:
        """Return the facts of the arrays reached from these values, without the names; keep no array alive."""
        for comparer in comparers:
            comparer.begin()
        takers = Takers(comparers)

        def found(path: str, array: Any) -> bool:
            taker = None if type(array) is Lent else takers.of(array)
            return taker is not None and taker.add(path, array)

        omitted = Walk(
            found=found,
            mesh=takers.add_mesh,
            arrays=takers.arrays,
            meshes=takers.meshes,
            packages=self._packages,
            libraries=self._libraries(),
            bounds=Bounds(),
        ).run(values)
        every = [comparer.found() for comparer in comparers]
        return NamesFacts(
            names={},
            arrays={path: one for found in every for path, one in found.arrays.items()},
            meshes={name: one for found in every for name, one in found.meshes.items()},
            local={path: one for found in every for path, one in found.local.items()},
            keys={path: one for found in every for path, one in found.keys.items()},
            omitted=omitted,
        )

    def _imported(self) -> list[Comparer]:
        """Return the comparers of the imported frameworks, kept from one check to the next."""
        for number, framework in enumerate(self._frameworks):
            if number not in self._comparers and framework.is_imported():
                self._comparers[number] = (framework.comparer or Comparer)()
        return list(self._comparers.values())

    def _libraries(self) -> list[Library]:
        found = (one.library for one in reversed(self._frameworks) if one.is_imported())
        return [library() for library in found if library is not None]

    def _array_texts(self, arrays: Mapping[str, Array]) -> dict[str, str]:
        """Return descriptions of arrays as text; for the same object as in the last check, that check's text."""
        before, self._texts = self._texts, {}
        for path, described in arrays.items():
            known = before.get(path)
            unchanged = known is not None and known[0] is described
            self._texts[path] = known if known and unchanged else (described, repr(described))
        return {path: text for path, (_, text) in self._texts.items()}

    def _rewritten(self, code: str) -> str:
        """Return the source that IPython compiles for a cell; the cell's own text where IPython refuses it."""
        try:
            return str(self._shell.transform_cell(code))
        except SyntaxError:
            return code


def _first(answers: Iterable[Any]) -> Any:
    return next((one for one in answers if one is not None), None)
