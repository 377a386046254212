"""Many processes' reports as one snapshot: what is the same is said once, what is not is named.

In: the `Report` that each process publishes, heard on a thread and a socket of the monitor's own; the kernel's own
facts (`Known`).
Out: a `Snapshot` for the views, up to ten times a second; and what each process said last, also once it is gone.

Read first: `monitor.py` (the thread that hears reports), `snapshots.py` (from reports to a snapshot), `states.py`
(the facts that are merged, and the states that follow from them).
"""

from __future__ import annotations

from nbdist.monitor.remembered import Held, HeldArray, Holdings
from nbdist.monitor.snapshots import Merger
from nbdist.monitor.states import ExpectedProcess, Failure, Known

__all__ = ["ExpectedProcess", "Failure", "Held", "HeldArray", "Holdings", "Known", "Merger"]
