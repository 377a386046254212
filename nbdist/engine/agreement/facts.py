"""Facts of a process that are compared before a cell, and short digests of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from nbdist.contract.agreement import Facts
from nbdist.contract.snapshot import Array
from nbdist.engine.agreement import environment
from nbdist.engine.agreement.comparer import Comparer
from nbdist.engine.agreement.modules import UsersModules
from nbdist.engine.agreement.names import Names
from nbdist.engine.agreement.reads import reads
from nbdist.engine.cell.packages import packages_of
from nbdist.engine.probe.library import Library


class Compared(Protocol):
    """A framework, as an agreement sees it."""

    packages: tuple[str, ...]

    def is_imported(self) -> bool:
        """Return whether this process has imported the framework; until then nothing else is asked."""
        ...

    def comparer(self) -> Comparer | None:
        """Return the comparer of the framework's arrays and settings; None where it has nothing to compare."""
        ...

    def library(self) -> Library | None:
        """Return the framework's containers, modules and models; None where it has none."""
        ...


class Agreement:
    """Source of one process's facts; used on the main thread, between cells.

    Args:
      shell: IPython's shell, which rewrites cells and holds the namespace.
      frameworks: All frameworks, each after those it builds on.
    """

    def __init__(self, shell: Any, frameworks: Sequence[Compared]) -> None:
        self._shell = shell
        self._frameworks = frameworks
        self._comparers: dict[int, Comparer] = {}
        self._packages = packages_of(frameworks)
        self._names = Names(self._packages)
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
            "software": lambda: environment.software(sorted(self._packages)),
            "modules": self._modules.versions,
            "variables": environment.variables,
            "settings": lambda: _first(one.settings() for one in comparers),
            "mesh": lambda: _first(one.mesh() for one in comparers),
            "distribution": lambda: _first(one.distribution() for one in comparers),
            "names": lambda: self._names.describe(
                reads(source, self._rewritten), self._shell.user_ns, comparers, self._libraries()
            ),
        }
        asked = {n: answer() for n, answer in answers.items() if topics is None or n in topics}
        return Facts(**asked)

    def digests(self, code: str) -> dict[str, str]:
        """Return a short text for each topic, equal where the facts are equal."""
        facts = self.facts(code)
        compared = {topic.name: getattr(facts, topic.name) for topic in fields(facts)}
        if facts.names is not None:
            # The other parts only detail differences. Sorted, since containers may be filled in another order.
            parts = (facts.names.names, self._array_texts(facts.names.arrays), facts.names.keys)
            compared["names"] = [[(key, part[key]) for key in sorted(part)] for part in parts]
        # The `repr` of facts has no addresses; JSON takes several times as long.
        return {
            topic: hashlib.sha256(repr(fact).encode()).hexdigest()[:12]
            for topic, fact in compared.items()
        }

    def _imported(self) -> list[Comparer]:
        """Return the comparers of the imported frameworks, kept from one check to the next."""
        for number, framework in enumerate(self._frameworks):
            if number not in self._comparers and framework.is_imported():
                self._comparers[number] = framework.comparer() or Comparer()
        return list(self._comparers.values())

    def _libraries(self) -> list[Library]:
        found = (one.library() for one in reversed(self._frameworks) if one.is_imported())
        return [library for library in found if library is not None]

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
