"""The folder of a save: `arrays-TOKEN` with the arrays, and `nbdist-save.json`, which names it.

The file is replaced in one step when all arrays are there: before, the folder has the save before, whole.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.engine.saving.parts import Part
from nbdist.engine.saving.structure import made
from nbdist.errors import ArrayError, OptionError

FILE = "nbdist-save.json"
ARRAYS = "arrays-"
MARKER = "nbdist-marker-"
FORMAT = 1
SEEN_SECONDS = 10.0
"""How long a host may need to see what another has written: network file systems keep listings."""
POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One variable of a save.

    Attributes:
      name: Its name.
      parts: What it consists of.
      first: The number of its first part among those of the save.
      structure: Its containers; see `nbdist.engine.saving.structure`. None where these are of other classes.
    """

    name: str
    parts: tuple[Part, ...]
    first: int
    structure: Any


@dataclass(frozen=True, kw_only=True)
class Save:
    """What the file says: the folder of the arrays, how many processes wrote it, and the variables."""

    arrays: str
    processes: int
    variables: tuple[Variable, ...]


def folder_of(path: str) -> Path:
    """The folder that a person has named.

    Raises:
      OptionError: It is no folder of a file system.
    """
    if "://" in path:
        raise OptionError(
            f"PATH {path!r} is an address. A save goes into a folder that all hosts see under the same name; "
            "mount the bucket, or use orbax.checkpoint in a cell."
        )
    return Path(path).expanduser().absolute()


def refuse_foreign(folder: Path) -> None:
    """Lets pass a folder that is not there, is empty, or has a save in it, whole or not.

    Raises:
      OptionError: Anything else is there, or its parent is not.
    """
    if not folder.parent.is_dir():
        raise OptionError(
            f"PATH {str(folder)!r}: there is no folder {str(folder.parent)!r}; make it first."
        )
    if not folder.exists() and not folder.is_symlink():
        return
    others = (
        None
        if not folder.is_dir()
        else [p.name for p in folder.iterdir() if not p.name.startswith((FILE, ARRAYS, MARKER))]
    )
    if others is None or others:
        what = "is a file" if others is None else f"has {sorted(others)[0]!r} in it"
        raise OptionError(
            f"PATH {str(folder)!r} {what} and is no save of nbdist: nothing there was changed. Name a new folder."
        )


def mark(folder: Path, token: str) -> None:
    """Makes the folder where it is not there, and a file in it that the other processes look for.

    Raises:
      OptionError: It cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        (folder / f"{MARKER}{token}").write_text(token)
    except OSError as error:
        raise OptionError(
            f"PATH {str(folder)!r} cannot be written: {error}. Nothing there was changed."
        ) from error


def unmark(folder: Path, token: str) -> None:
    """Removes the file; and the folder where nothing else is in it."""
    (folder / f"{MARKER}{token}").unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def sees(folder: Path, token: str) -> bool:
    """Whether the file is there, seen from here."""
    deadline = time.monotonic() + SEEN_SECONDS
    while not (folder / f"{MARKER}{token}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def arrays_of(folder: Path, token: str) -> Path:
    """Where the arrays of a save go."""
    return folder / f"{ARRAYS}{token}"


def commit(folder: Path, token: str, save: Save) -> None:
    """Makes what was written the save that is in the folder, in one step; removes what was there before."""
    text = json.dumps(
        {
            "format": FORMAT,
            "arrays": save.arrays,
            "processes": save.processes,
            "variables": [_plain(variable) for variable in save.variables],
        }
    )
    new = folder / f"{FILE}.{token}"
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE)
    clean(folder, keep=save.arrays)


def clean(folder: Path, *, keep: str | None = None) -> None:
    """Removes what saves that did not come to their end have left, and those that were replaced."""
    for one in folder.iterdir():
        if one.name not in (FILE, keep):
            if one.is_dir():
                shutil.rmtree(one, ignore_errors=True)
            else:
                one.unlink(missing_ok=True)


def read(folder: Path, host: str) -> Save:
    """The save that is in a folder, as this host sees it.

    Raises:
      ArrayError: There is none, or none that is whole, or one that this nbdist cannot read.
    """
    said = f"{str(folder)!r} cannot be restored"
    try:
        data = json.loads((folder / FILE).read_text())
    except (FileNotFoundError, NotADirectoryError):
        why = _why_none(folder, host)
        raise ArrayError(f"{said}: {why}. No variable was changed.") from None
    except (OSError, ValueError) as error:
        raise ArrayError(f"{said}: {error} (host {host}). No variable was changed.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        has = data.get("format") if isinstance(data, dict) else None
        raise ArrayError(
            f"{said}: its format is {has}, and this nbdist reads {FORMAT}. No variable was changed."
        )
    try:
        found = Save(
            arrays=data["arrays"],
            processes=data["processes"],
            variables=tuple(_variable(one) for one in data["variables"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArrayError(
            f"{said}: {FILE} is not as it was written ({type(error).__name__}: {error}). No variable was changed."
        ) from error
    if found.arrays and not (folder / found.arrays).is_dir():
        raise ArrayError(
            f"{str(folder)!r} is incomplete: its arrays, {found.arrays!r}, are missing. No variable was changed."
        )
    return found


def _why_none(folder: Path, host: str) -> str:
    if not folder.exists():
        return f"there is no such folder on host {host}"
    if not folder.is_dir():
        return "it is a file"
    if any(path.name.startswith(ARRAYS) for path in folder.iterdir()):
        return "it is incomplete: it did not come to its end, or its arrays alone were copied"
    return f"it has no {FILE}"


def skeleton_of(variable: Variable) -> Any:
    """The variable with numbers in place of its parts.

    Raises:
      ArrayError: It has containers of classes of its own, or is not as it was written.
    """
    try:
        if variable.structure is None:
            raise TypeError("it has containers of classes of their own")
        return made(variable.structure)
    except (TypeError, ValueError) as error:
        raise ArrayError(
            f"{variable.name} cannot be made anew: {error}. Make a value of the same structure under the name "
            f"{variable.name}, such as by the function that initializes it, and restore again. No variable was "
            "changed."
        ) from error


def _plain(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "first": variable.first,
        "parts": [dataclasses.asdict(part) for part in variable.parts],
        "structure": variable.structure,
    }


def _variable(data: dict[str, Any]) -> Variable:
    return Variable(
        name=data["name"],
        first=data["first"],
        parts=tuple(_part(one) for one in data["parts"]),
        structure=data["structure"],
    )


def _part(data: dict[str, Any]) -> Part:
    spec = data["spec"]
    entries = None if spec is None else tuple(tuple(e) if isinstance(e, list) else e for e in spec)
    axes = tuple((name, size) for name, size in data["axes"])
    return Part(**data | {"spec": entries, "axes": axes, "shape": tuple(data["shape"])})
