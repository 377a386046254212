"""Many processes' reports as one snapshot: what is the same is said once, what is not is named."""

from __future__ import annotations

from nbdist.merge.facts import Failure, Known, Planned
from nbdist.merge.held import Held, HeldArray, Holdings
from nbdist.merge.session import Merger

__all__ = ["Failure", "Held", "HeldArray", "Holdings", "Known", "Merger", "Planned"]
