"""What is shown of arrays while nobody can be asked: what was last reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

from nbdist.contract.snapshot import Mesh, Snapshot
from nbdist.pieces import meshes_of


class Reported(ABC):
    """Described by a process that was asked, or `seen` in what all have reported; its `remark` says so then."""

    __slots__ = ()

    remark: str

    @classmethod
    def seen(cls, path: str, snapshot: Snapshot, *, while_: str) -> Self | None:
        """What was last reported under a path; None where nothing was.

        Args:
          path: The expression that reaches it from the namespace.
          snapshot: Where it was reported.
          while_: What goes on meanwhile, for the remark.
        """
        remark = f"as last reported, while {while_}"
        return cls._found(path, snapshot, meshes_of(snapshot), remark)

    @classmethod
    @abstractmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """What is there under the path, with what must be known of it besides."""

    def _remarked(self, text: str) -> str:
        """A text below the remark, where there is one."""
        return f"{self.remark}\n{text}" if self.remark else text
