"""A session's private folder on one host, with connection files and logs.

The folder is removed even if the process that should remove it was killed (`sweep_after`).

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nbdist.machine.processes import signal_at_end_of


def engine_connection(folder: str, cluster_id: str) -> Path:
    """Return where ipyparallel looks for the engines' connection file in a profile folder."""
    return Path(folder) / "security" / f"ipcontroller-{cluster_id}-engine.json"


def connections(folder: str, cluster_id: str) -> tuple[Path, Path]:
    """Return the connection files of a controller: that of the engines, and that of clients."""
    engines = engine_connection(folder, cluster_id)
    return engines, engines.with_name(f"ipcontroller-{cluster_id}-client.json")


def make() -> str:
    """Make a new folder that only this user can read."""
    return tempfile.mkdtemp(prefix="nbdist-")


def of_this_process() -> Path | None:
    """Return the folder of the session whose engine this process is; None if it is no engine."""
    log = os.environ.get("NBDIST_LOG")
    return Path(log).parent if log else None


def keep_ipython_in(folder: str) -> None:
    """Have IPython keep its profile in this folder if the home folder has none, or cannot be written.

    Otherwise IPython would make a profile and leave it behind on a host where nobody has ever run it, or whose
    home folder is missing, as for a task that `srun` starts with the home folder of another machine.
    """
    place = Path("~").expanduser() / ".ipython" / "profile_default"
    if "IPYTHONDIR" not in os.environ and not (place.is_dir() and os.access(place, os.W_OK)):
        os.environ["IPYTHONDIR"] = str(Path(folder) / "ipython")


def remove(folder: str) -> None:
    """Remove the folder and all it holds."""
    shutil.rmtree(folder, ignore_errors=True)


def read_whole(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file; None while it does not exist or is still being written."""
    try:
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    except (OSError, ValueError):
        return None


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Write JSON that only this user can read; readers see all of it or nothing.

    Raises:
      OSError: The file could not be written; nothing is left of it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file)
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


AGAIN_SECONDS = 0.5
"""Seconds before the last removal: until then, children of the killed process may still write files."""

LOOK_SECONDS = 0.05
"""Seconds between removals when a scheduler ends the whole job: the sweeper, too, may be killed at any moment."""


def sweep_after(folder: str) -> int | None:
    """Fork a process that removes a folder as soon as this process has ended, for whatever reason (Linux only).

    The fork imports nothing and holds nothing open, so it costs little; call this while there is one thread.

    Returns:
      Its process id, for `end`; None on other systems.
    """
    parent = os.getpid()
    if sys.platform != "linux":
        return None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sweeper = os.fork()
    if sweeper != 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return sweeper
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        if signal_at_end_of(parent, signal.SIGTERM):
            signal.sigwait({signal.SIGTERM})
        remove(folder)
        # A scheduler sends SIGTERM to all processes of a job; a busy one goes on writing until it is killed.
        while os.getppid() == parent:
            time.sleep(LOOK_SECONDS)
            remove(folder)
        time.sleep(AGAIN_SECONDS)
        remove(folder)
    finally:
        os._exit(0)


def end(sweeper: int | None) -> None:
    """End a sweeper whose folder has been removed."""
    if sweeper is not None:
        # An ended and reaped sweeper is no longer a child, and its process id may be another's.
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(sweeper, os.WNOHANG) == (0, 0):
                os.kill(sweeper, signal.SIGKILL)
                os.waitpid(sweeper, 0)
