"""The private folder of a session on one host: connection files and logs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any


def engine_connection(folder: str, cluster_id: str) -> Path:
    """Where ipyparallel looks for the connection file of engines, in a profile folder."""
    return Path(folder) / "security" / f"ipcontroller-{cluster_id}-engine.json"


def connections(folder: str, cluster_id: str) -> tuple[Path, Path]:
    """The connection files of a controller: that of the engines, and that of clients."""
    engines = engine_connection(folder, cluster_id)
    return engines, engines.with_name(f"ipcontroller-{cluster_id}-client.json")


def make() -> str:
    """A new folder that only this user can read."""
    return tempfile.mkdtemp(prefix="nbdist-")


def of_this_process() -> Path | None:
    """That of the session which this process is an engine of; None where it is none."""
    log = os.environ.get("NBDIST_LOG")
    return Path(log).parent if log else None


def keep_ipython_in(folder: str) -> None:
    """Gives IPython a place in this folder where it has no profile in the home folder, or may not write there.

    IPython would make the profile and leave it: on a host where nobody has ever run it, or whose home folder is
    not there, as for a task that `srun` starts with that of another machine.
    """
    place = Path("~").expanduser() / ".ipython" / "profile_default"
    if "IPYTHONDIR" not in os.environ and not (place.is_dir() and os.access(place, os.W_OK)):
        os.environ["IPYTHONDIR"] = str(Path(folder) / "ipython")


def remove(folder: str) -> None:
    """Removes the folder and all it holds."""
    shutil.rmtree(folder, ignore_errors=True)


def read_whole(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds; None while it is not there, or still being written."""
    try:
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    except (OSError, ValueError):
        return None


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON that only this user can read; whoever looks sees all of it or nothing.

    Raises:
      OSError: It could not be written; nothing is left.
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
