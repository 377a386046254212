"""Arrays as last reported, shown while no process can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

from nbdist.contract.snapshot import Mesh, Snapshot
from nbdist.pieces import meshes_of


class Reported(ABC):
    """An answer of one process, or `seen` in the reports of all; its `remark` then says so."""

    __slots__ = ()

    remark: str

    @classmethod
    def seen(cls, path: str, snapshot: Snapshot, *, while_: str) -> Self | None:
        """Return what was last reported under a path; None where nothing was.

        Args:
          path: The expression that reaches it from the namespace.
          snapshot: The snapshot with the reports.
          while_: What goes on meanwhile, for the remark.
        """
        remark = f"as last reported, while {while_}"
        return cls._found(path, snapshot, meshes_of(snapshot), remark)

    @classmethod
    @abstractmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """Return the reported object under the path with this remark, or a longer one; None if none."""

    def _remarked(self, text: str) -> str:
        """Return a text below the remark, if there is one."""
        return f"{self.remark}\n{text}" if self.remark else text
