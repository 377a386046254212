"""Many processes' reports as one snapshot: what is the same is said once, what is not is named."""

from __future__ import annotations

from nbdist.monitor.remembered import Held, HeldArray, Holdings
from nbdist.monitor.snapshots import Merger
from nbdist.monitor.states import ExpectedProcess, Failure, Known

__all__ = ["ExpectedProcess", "Failure", "Held", "HeldArray", "Holdings", "Known", "Merger"]
