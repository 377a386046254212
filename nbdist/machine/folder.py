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
    """Return the folder of the session whose engine this process is; None where it is no engine."""
    log = os.environ.get("NBDIST_LOG")
    return Path(log).parent if log else None


def keep_ipython_in(folder: str) -> None:
    """Give IPython a place in this folder where it has no profile in the home folder, or may not write there.

    IPython would make the profile and leave it behind: on a host where nobody has ever run it, or whose home
    folder is missing, as for a task that `srun` starts with the home folder of another machine.
    """
    place = Path("~").expanduser() / ".ipython" / "profile_default"
    if "IPYTHONDIR" not in os.environ and not (place.is_dir() and os.access(place, os.W_OK)):
        os.environ["IPYTHONDIR"] = str(Path(folder) / "ipython")


def remove(folder: str) -> None:
    """Removes the folder and all it holds."""
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
