"""`ArrayPlan`, the result of `nbdist.plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdist.rehearsal.html import plan_html
from nbdist.rehearsal.planned import Planned
from nbdist.rehearsal.snapshot import largest_split, snapshot_of
from nbdist.rehearsal.text import plan_text
from nbdist.view.one_frame import OneFrame
from nbdist.view.picture import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan(Planned):
    """A plan of what each device of a mesh would hold; `Planned` lists its data."""

    def text(self) -> str:
        """Return the text that `%dist_plan` prints."""
        return plan_text(self)

    def picture(self) -> Picture | None:
        """Return a picture of the pod, its mesh and the arrays on it, as `%dist_mesh` shows those of a session.

        Returns:
          None where it is not known how the mesh lies on the pod: no chip is named, or JAX is not imported.
        """
        found = snapshot_of(self)
        if found is None:
            return None
        return Picture(OneFrame(found), lambda: found, path=largest_split(self))

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the plan as text and HTML, for a notebook."""
        return {"text/plain": self.text(), "text/html": plan_html(self)}
