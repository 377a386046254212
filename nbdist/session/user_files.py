"""The user's files on the hosts of a session: the start brings them, and `sync_files` updates them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import replace

from nbdist.contract.calls.engine import AskImported
from nbdist.errors import GoneError, SessionError
from nbdist.launch.files.sync import Copied, Files
from nbdist.launch.start.agents import Agents
from nbdist.session.engine_group import EngineGroup
from nbdist.spelling import Placeholder, start_with

IMPORTED_SECONDS = 2.0
"""How long processes may take to say what they have imported; those in a cell do not answer."""


def files_brought(agents: Agents) -> list[str]:
    """Return what a start has done with the user's files, a line each."""
    if agents.files is None or not agents.others:
        return []
    folders = agents.files.working_folders(agents.others)
    return [*agents.files.first().text().splitlines(), *([folders] if folders else [])]


def sync_files(engines: EngineGroup) -> Copied:
    """Make the hosts' copies of the user's files equal to the originals again.

    Raises:
      SessionError: This session copies none.
      OptionError: The files have become too large; nothing was sent.
      SyncError: A host could not take them.
    """
    files = engines.link.agents.files
    if files is None:
        raise SessionError(
            "This session has no files to bring to its hosts: "
            f"{start_with('sync', Placeholder('PATH'))} names them."
        )
    done = files.sync(engines.link.agents.others)
    if not done.any_news:
        return done
    old, busy = imported(engines, files, done.changed)
    return replace(done, old=old, busy=busy)


def imported(
    engines: EngineGroup, files: Files, changed: Iterable[str]
) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Return process ids by the imported modules whose files have changed, and the processes that did not answer.

    The asked processes look again for modules that they have not found before.
    """
    asked = {}
    for process_id in engines.choice.able():
        place = engines.link.agents.place(process_id)
        folder = None if place is None else place.folder
        paths = tuple(files.path(name, folder) for name in changed)
        asked[process_id] = engines.send(process_id, AskImported(paths=paths))
    found: dict[str, tuple[int, ...]] = {}
    deadline = time.monotonic() + IMPORTED_SECONDS
    for process_id, request in asked.items():
        request.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(GoneError):  # one that ends meanwhile needs no new modules
            for name in request.get()[0].modules if request.ready() else ():
                found[name] = (*found.get(name, ()), process_id)
    return found, tuple(p for p, request in asked.items() if not request.ready())
