"""Checks of room for processes: memory, temporary files, folders."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nbdist.launch.doctor.finding import Case, Finding
from nbdist.launch.model.framework import framework_named
from nbdist.quantities import bytes_text, count_text
from nbdist.spelling import Placeholder, start_with

MIB = 1 << 20

TEMPORARY_BYTES = 100 * MIB
"""If less room is left, logs and outputs soon fill it."""


def memory(case: Case) -> Iterator[Finding]:
    """Check that memory suffices for the processes that are asked for, before they hold any data."""
    available = case.facts.memory.available
    parent, each = framework_named(case.needs.framework).memory_bytes
    count = case.examined.processes
    # A scheduler starts an agent for each process.
    parents = count if case.needs.launcher in ("slurm", "mpi") else 1
    needed = parents * parent + count * each
    if not case.needs.starting or available is None or available >= needed:
        return
    # The figures are rounded up, and memory may come free.
    progress = case.warning if available > needed * 2 / 3 else case.error
    noun = f"{count_text(count, 'process')} with {case.needs.framework}"
    yield progress(
        f"{bytes_text(available)} of memory available; {noun} need about {bytes_text(needed)} before they "
        "hold any data",
        where=f"memory of {case.examined.host}",
        do=f"{case.there('ps -eo pid,user,rss,args --sort=-rss | head')}, and end what is not needed; or ask for "
        "fewer processes there",
    )


def temporary(case: Case) -> Iterator[Finding]:
    """Check that there is room for files of the processes."""
    found = case.facts.temporary
    look = case.there(f"du -xh --max-depth=1 {shlex.quote(found.path)}")
    if found.error:
        progress = case.warning if found.instead else case.error
        instead = f"; its files would go to {found.instead} instead" if found.instead else ""
        yield progress(
            f"no file can be written in {found.path}: {found.error}{instead}",
            where=f"{found.path} on {case.examined.host}",
            do=f"{look}, and make room; or set TMPDIR there",
        )
    elif found.free is not None and found.free < TEMPORARY_BYTES:
        yield case.warning(
            f"{bytes_text(found.free)} free in {found.path}",
            where=f"{found.path} on {case.examined.host}",
            do=f"{look}, and make room",
        )


def folder(case: Case) -> Iterator[Finding]:
    """Check that the working folder of the cells exists."""
    found = case.facts.folder
    if found is not None and not found.exists:
        yield case.error(
            f"the notebook's folder {found.path} is not there",
            where=f"{found.path} on {case.examined.host}",
            do=f"{start_with('sync', '.')}, which brings it there; or "
            f"{start_with('cwd', Placeholder('FOLDER'))}, with a folder that is there",
        )
