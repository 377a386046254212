"""Target of `--attach`: a session of nbdist's, or a cluster of ipyparallel's that somebody else has started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.errors import SessionError
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import Record
from nbdist.spelling import Placeholder, command

NEEDED = ("interface", "key", "iopub", "signature_scheme", "registration")
"""Fields that must be in ipyparallel's connection info for clients."""


@dataclass(frozen=True, slots=True)
class ForeignCluster:
    """A cluster that somebody else has started; `name` is the person's word for it."""

    name: str
    connection: Mapping[str, Any]


def resolve(word: str) -> Record | ForeignCluster:
    """Return the session or cluster that a person means.

    Args:
      word: `last`, an id of a session or its beginning, a connection file (`ipcontroller-client.json`), a cluster
        file (`cluster-….json`), or a profile of ipyparallel's.

    Raises:
      SessionError: There is no such thing; the text says what there is.
    """
    path = Path(word).expanduser()
    if path.is_file():
        return _of_file(word, path)
    if "/" in word or word.endswith(".json"):
        raise SessionError(
            f"{command('attach', word)}: there is no such file. ipyparallel writes ipcontroller-client.json into "
            "the folder `security` of the profile that was started."
        )
    if word != "last" and (profile := _profile_file(word)) is not None:
        return _of_file(word, profile)
    try:
        return registry.find(word)
    except SessionError as error:
        if word == "last":
            raise
        raise SessionError(
            f"{error} A profile of ipyparallel's of this name has no connection file either; a file can be named "
            f"as well: {command('attach', Placeholder('FILE'))}."
        ) from None


def _of_file(word: str, path: Path) -> Record | ForeignCluster:
    for record in registry.sessions():
        if Path(record.connection).resolve() == path.resolve():
            return record
    return ForeignCluster(word, read_connection(path))


def read_connection(path: Path) -> dict[str, Any]:
    """Return ipyparallel's connection info for clients, from its connection file or from a cluster file.

    Raises:
      SessionError: The file is neither, or cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SessionError(f"{path} is no connection file of ipyparallel's: {error}.") from error
    if isinstance(content, dict) and isinstance(content.get("cluster"), dict):
        return read_connection(_beside(path, content["cluster"]))
    if not isinstance(content, dict) or any(name not in content for name in NEEDED):
        engines = " It is that of the engines." if "-engine" in path.name else ""
        raise SessionError(
            f"{path} is no connection file of ipyparallel's for clients.{engines} Such a file is called "
            "ipcontroller-client.json, or cluster-….json."
        )
    return content


def _beside(path: Path, cluster: Mapping[str, Any]) -> Path:
    """Return the connection file of the cluster that a cluster file describes."""
    name = (
        f"ipcontroller-{cluster['cluster_id']}-" if cluster.get("cluster_id") else "ipcontroller-"
    )
    security = Path(cluster.get("profile_dir") or path.parent.parent) / "security"
    return security / f"{name}client.json"


def _profile_file(name: str) -> Path | None:
    """Return the connection file of a profile; None if it has none."""
    from IPython.paths import get_ipython_dir

    security = Path(get_ipython_dir()) / f"profile_{name}" / "security"
    path = security / "ipcontroller-client.json"
    return path if path.is_file() else None
