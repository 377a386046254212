"""What a process has to compare before a cell, and short digests of it."""

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
        """Whether this process has imported it; until then nothing else is asked."""
        ...

    def comparer(self) -> Comparer | None:
        """What compares its arrays and settings; None where it has nothing to compare."""
        ...

    def library(self) -> Library | None:
        """Its containers, modules and models; None where it has none."""
        ...


class Agreement:
    """One for each process; used on the main thread, between cells.

    Args:
      shell: IPython's, which rewrites cells and has the namespace.
      frameworks: All there are, those that others build on first.
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
        """What is to be equal on all processes that run a cell; of these topics only.

        Args:
          code: The cell.
          topics: Names of fields of `Facts`; None: all.
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
        """A short text by topic that is equal where the facts are."""
        facts = self.facts(code)
        compared = {topic.name: getattr(facts, topic.name) for topic in fields(facts)}
        if facts.names is not None:
            # The rest only says more of what differs. Containers may have been filled in another order.
            parts = (facts.names.names, self._array_texts(facts.names.arrays), facts.names.keys)
            compared["names"] = [[(key, part[key]) for key in sorted(part)] for part in parts]
        # Facts, whose text has no addresses; JSON takes several times as long.
        return {
            topic: hashlib.sha256(repr(fact).encode()).hexdigest()[:12]
            for topic, fact in compared.items()
        }

    def _imported(self) -> list[Comparer]:
        """The comparers of the frameworks that have been imported, kept from one check to the next."""
        for number, framework in enumerate(self._frameworks):
            if number not in self._comparers and framework.is_imported():
                self._comparers[number] = framework.comparer() or Comparer()
        return list(self._comparers.values())

    def _libraries(self) -> list[Library]:
        found = (one.library() for one in reversed(self._frameworks) if one.is_imported())
        return [library for library in found if library is not None]

    def _array_texts(self, arrays: Mapping[str, Array]) -> dict[str, str]:
        """The descriptions of arrays as text; of one that is the same object as in the last check, that text."""
        before, self._texts = self._texts, {}
        for path, described in arrays.items():
            known = before.get(path)
            unchanged = known is not None and known[0] is described
            self._texts[path] = known if known and unchanged else (described, repr(described))
        return {path: text for path, (_, text) in self._texts.items()}

    def _rewritten(self, code: str) -> str:
        """What IPython compiles for a cell; the text itself where it refuses to."""
        try:
            return str(self._shell.transform_cell(code))
        except SyntaxError:
            return code


def _first(answers: Iterable[Any]) -> Any:
    return next((one for one in answers if one is not None), None)
