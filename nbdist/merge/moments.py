"""Where each process stood when it last reported, as far as its reports are of now.

Reports of a host that was cut off come late, one by one, and a reply to a cell may be here before them: what an
old report says must not be compared with what a new one does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from nbdist.contract.snapshot import Activity, Process
from nbdist.merge.facts import Known
from nbdist.merge.states import Latest

OLD_SECONDS = 3.0
"""A report older than this is of another moment; each process reports at least every second."""

IDLE = "idle"


def moments(
    processes: Iterable[Process],
    latest: Mapping[int, Latest],
    sent: Mapping[int, int],
    known: Known,
    *,
    content: bool,
) -> dict[int, Hashable]:
    """The place that each process has reported, by process id; equal ones may be compared.

    Left out are processes whose newest report is old, is of before the newest cell that was sent to them, or is
    not of the state that they are known to be in since.

    Args:
      processes: As the session knows them now.
      latest: What each has reported last.
      sent: The number of the newest cell that was sent to each process; none where this kernel has sent none.
      known: The kernel's own facts.
      content: Whether arrays, models and the like are to be compared, which are looked at less often than where
        the process stands.
    """
    found: dict[int, Hashable] = {}
    for process in processes:
        said = latest.get(process.process_id)
        if said is None or said.reported is None or process.host in known.silent:
            continue
        if (process.silent_seconds or 0.0) > OLD_SECONDS:
            continue
        place = _place(said.reported)
        if (place == IDLE) != (process.state == "idle"):
            continue
        if process.state not in ("idle", "running", "compiling"):
            continue
        run = said.reported.run
        newest = sent.get(process.process_id)
        if newest is not None and (run is None or run < newest):
            continue
        if content and place == IDLE and said.content_run != run:
            continue
        found[process.process_id] = place
    return found


def _place(activity: Activity) -> Hashable:
    """Idle, or the line of the cell."""
    return IDLE if activity.state == "idle" else (activity.cell, activity.line)
