"""Memory, temporary files, folders: room for processes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nbdist.launch.doctor.finding import Case, Finding
from nbdist.quantities import bytes_text, count_text

MIB = 1 << 20

PROCESS_BYTES = 300 * MIB
PARENT_BYTES = 200 * MIB

TEMPORARY_BYTES = 100 * MIB
"""Below so much room is left, logs and outputs soon fill it."""


def memory(case: Case) -> Iterator[Finding]:
    """Room for as many processes as are asked for, before they hold any data."""
    available = case.facts["memory"]["available"]
    needed = PARENT_BYTES + case.examined.processes * PROCESS_BYTES
    if not case.needs.starting or available is None or available >= needed:
        return
    yield case.error(
        f"{bytes_text(available)} of memory available; {count_text(case.examined.processes, 'process')} with "
        f"{case.needs.framework} need about {bytes_text(needed)} before they hold any data",
        where=f"memory of {case.examined.host}",
        do=f"{case.there('ps -eo pid,user,rss,args --sort=-rss | head')}, and end what is not needed; or ask for "
        "fewer processes there",
    )


def temporary(case: Case) -> Iterator[Finding]:
    """Room for files of the processes."""
    found = case.facts["temporary"]
    look = case.there(f"du -xh --max-depth=1 {shlex.quote(found['path'])}")
    if found["error"]:
        yield case.error(
            f"no file can be written in {found['path']}: {found['error']}",
            where=f"{found['path']} on {case.examined.host}",
            do=f"{look}, and make room; or set TMPDIR there",
        )
    elif found["free"] < TEMPORARY_BYTES:
        yield case.warning(
            f"{bytes_text(found['free'])} free in {found['path']}",
            where=f"{found['path']} on {case.examined.host}",
            do=f"{look}, and make room",
        )


def folder(case: Case) -> Iterator[Finding]:
    """The folder cells are to work in."""
    found = case.facts.get("folder")
    if found and not found["exists"]:
        yield case.warning(
            f"the notebook's folder {found['path']} is not there; modules and files beside the notebook will "
            "not be found",
            where=f"{found['path']} on {case.examined.host}",
            do=f"{case.there('mkdir -p ' + shlex.quote(found['path']))}, and copy what is needed",
        )
