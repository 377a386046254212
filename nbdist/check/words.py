"""The error text of a cell that is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.check.versions import Difference
from nbdist.contract.snapshot import Activity
from nbdist.quantities import count_text, where_text
from nbdist.spelling import command

MOST_LISTED = 5
"""The most differences that are written out; the first is most often the cause of the others."""


def differences_text(found: Sequence[Difference], hosts: Mapping[int, str]) -> str:
    """Return the error's text: a sentence for each difference, what has run, and what to do."""
    listed = [_sentence(one, hosts) for one in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        listed.append(f"{count_text(len(found) - MOST_LISTED, 'other')} as well")
    return (
        f"{'; '.join(listed)}. Nothing was run. {found[0].do} "
        f"{command('unchecked')} runs it anyway."
    )


def _sentence(one: Difference, hosts: Mapping[int, str]) -> str:
    versions = (f"{text} on {where_text(ids, hosts)}" for ids, text in one.versions)
    return f"{one.about} differs: {', '.join(versions)}"


def busy_text(
    doing: Mapping[int, Activity | None], hosts: Mapping[int, str], waited_s: float
) -> str:
    """Return the error's text where processes do not answer."""
    said = []
    for process_id, activity in doing.items():
        at = ""
        if activity is not None and activity.state != "idle" and activity.cell is not None:
            line = f", line {activity.line}" if activity.line else ""
            source = f", {activity.source}" if activity.source else ""
            at = f" in cell {activity.cell}{line}{source}"
        said.append(f"{where_text([process_id], hosts)} is busy{at}")
    return (
        f"{'; '.join(said)}: not compared within {waited_s:g} s. Nothing was run. {command('sync')} waits until "
        f"all are idle; {command('unchecked')} queues the cell behind what runs."
    )
