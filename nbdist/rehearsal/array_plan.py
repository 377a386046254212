"""`ArrayPlan`: what `nbdist.plan` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdist.rehearsal.html import plan_html
from nbdist.rehearsal.planned import Planned
from nbdist.rehearsal.text import plan_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan(Planned):
    """What each device of a mesh would hold; see `Planned` for what it consists of."""

    def text(self) -> str:
        """As `%dist_plan` prints it."""
        return plan_text(self)

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What a notebook displays."""
        return {"text/plain": self.text(), "text/html": plan_html(self)}
