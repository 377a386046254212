"""What a process has to compare before a cell, and short digests of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import Any

from nbdist.engine.agreement import environment
from nbdist.engine.agreement.names import Names
from nbdist.engine.agreement.reads import reads
from nbdist.engine.agreement.spread import context_mesh, keras_distribution
from nbdist.engine.frameworks.jax.meshes import Meshes

NOT_COMPARED = frozenset({"local", "meshes", "omitted"})
"""Parts of the topic `names` that only say more of what differs."""


class Agreement:
    """One for each process; used on the main thread, between cells.

    Args:
      shell: IPython's, which rewrites cells and has the namespace.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._meshes = Meshes()
        self._names = Names(self._meshes)
        self._texts: dict[str, tuple[Any, str]] = {}

    def facts(self, code: str, topics: Collection[str] | None = None) -> dict[str, Any]:
        """What is to be equal on all processes that run a cell, by topic; of these topics only.

        Args:
          code: The cell.
          topics: Some of `cell`, `software`, `variables`, `settings`, `mesh`, `distribution`, `names`.
        """
        source = self._rewritten(code)
        answers: dict[str, Callable[[], Any]] = {
            "cell": lambda: hashlib.sha256(source.encode()).hexdigest()[:12],
            "software": environment.software,
            "variables": environment.variables,
            "settings": environment.settings,
            "mesh": lambda: context_mesh(self._meshes),
            "distribution": lambda: keras_distribution(self._meshes),
            "names": lambda: self._names.describe(
                reads(source, self._rewritten), self._shell.user_ns
            ),
        }
        return {
            name: answer() for name, answer in answers.items() if topics is None or name in topics
        }

    def digests(self, code: str) -> dict[str, str]:
        """A short text by topic that is equal where the facts are."""
        facts = self.facts(code)
        # Containers may have been filled in another order.
        facts["names"] = [
            sorted((self._array_texts(part) if name == "arrays" else part).items())
            for name, part in facts["names"].items()
            if name not in NOT_COMPARED
        ]
        # Plain data, whose text has no addresses; JSON takes several times as long.
        return {
            topic: hashlib.sha256(repr(fact).encode()).hexdigest()[:12]
            for topic, fact in facts.items()
        }

    def _array_texts(self, arrays: dict[str, Any]) -> dict[str, str]:
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
