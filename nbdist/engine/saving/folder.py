"""The folder of a save: `arrays-TOKEN` with the arrays, and `nbdist-save.json`, which names `arrays-TOKEN`.

The file is replaced in one step when all arrays are there: until then the folder still has the earlier save,
whole. Only what saves have written is ever removed: the tokens in their names are listed in
`nbdist-save.json`, or in the marks of unfinished saves. The file describes the containers of each variable as
plain data, from which they can be made again without running user code.
"""

from __future__ import annotations

import builtins
import dataclasses
import json
import keyword
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.contract.wire import decode
from nbdist.engine.saving.parts import SavedLeaf
from nbdist.errors import ArrayError, OptionError, WireError

KEYS = (str, int, bool)


def plain(value: Any) -> Any:
    """Return dicts, lists, tuples and None as plain data.

    Args:
      value: A variable with the number of each part in place of the part.

    Raises:
      TypeError: A container is of another class, which a restore could not make, or a key is no text or number.
    """
    if value is None:
        return {"none": True}
    if type(value) is int:
        return value
    if type(value) is dict:
        if any(type(key) not in KEYS for key in value):
            raise TypeError("a dict has a key that is no text or number")
        return {"dict": [[key, plain(child)] for key, child in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [plain(child) for child in value]}
    raise TypeError(f"it has a {type(value).__qualname__}")


def made(data: Any) -> Any:
    """Return the containers that `plain` has described; run no user code.

    Raises:
      TypeError: The data is no such description.
    """
    match data:
        case int():
            return data
        case {"none": True}:
            return None
        case {"dict": [*pairs]}:
            return {key: made(child) for key, child in pairs}
        case {"list": [*children]}:
            return [made(child) for child in children]
        case {"tuple": [*children]}:
            return tuple(made(child) for child in children)
    raise TypeError(f"{data!r} describes no container")


FILE = "nbdist-save.json"
ARRAYS = "arrays-"
MARKER = "nbdist-marker-"
TOKEN = "[0-9a-f]{32}"
"""Pattern of a save's token, with which the names of all that the save writes end; no person would choose such a
name."""

FORMAT = 1
SEEN_SECONDS = 10.0
"""Longest time until a host sees what another has written: network file systems cache listings of folders."""
POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class SavedVariable:
    """One variable of a save.

    Attributes:
      first: The number of its first part among those of the save.
      structure: Its containers, as `plain` returns them; None if they are of other classes.
    """

    name: str
    parts: tuple[SavedLeaf, ...]
    first: int
    structure: Any


@dataclass(frozen=True, kw_only=True)
class SaveFile:
    """The contents of the file: the folder of the arrays, how many processes wrote it, and the variables."""

    arrays: str
    processes: int
    variables: tuple[SavedVariable, ...]


def folder_of(path: str) -> Path:
    """Return the folder that a person has named.

    Raises:
      OptionError: The path is an address, not a folder of a file system.
    """
    if "://" in path:
        raise OptionError(
            f"PATH {path!r} is an address. A save goes into a folder that all hosts see under the same name; "
            "mount the bucket, or use orbax.checkpoint in a cell."
        )
    return Path(path).expanduser().absolute()


def refuse_foreign(folder: Path) -> None:
    """Raise an error if the folder holds anything but a save, whole or not; it may be empty or not exist.

    Raises:
      OptionError: The folder holds other files, or its parent folder does not exist.
    """
    if not folder.parent.is_dir():
        raise OptionError(
            f"PATH {str(folder)!r}: there is no folder {str(folder.parent)!r}; make it first."
        )
    if not folder.exists() and not folder.is_symlink():
        return
    others = None
    if folder.is_dir():
        ours = {folder / FILE, *_written(folder)}
        others = [path.name for path in folder.iterdir() if path not in ours]
    if others is None or others:
        what = "is a file" if others is None else f"has {sorted(others)[0]!r} in it"
        raise OptionError(
            f"PATH {str(folder)!r} {what} and is no save of nbdist: nothing there was changed. Name a new folder."
        )


def mark(folder: Path, token: str) -> None:
    """Make the folder if it is not there, and a marker file in it that the other processes look for.

    Raises:
      OptionError: The folder or the marker cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        (folder / f"{MARKER}{token}").write_text(token)
    except OSError as error:
        raise OptionError(
            f"PATH {str(folder)!r} cannot be written: {error}. Nothing there was changed."
        ) from error


def unmark(folder: Path, token: str) -> None:
    """Remove the marker file, and the folder if nothing else is in it."""
    (folder / f"{MARKER}{token}").unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def sees(folder: Path, token: str) -> bool:
    """Return whether this host sees the marker file; wait for it at most `SEEN_SECONDS`."""
    deadline = time.monotonic() + SEEN_SECONDS
    while not (folder / f"{MARKER}{token}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def arrays_of(folder: Path, token: str) -> Path:
    """Return the folder for the arrays of a save."""
    return folder / f"{ARRAYS}{token}"


def commit(folder: Path, token: str, save: SaveFile) -> None:
    """Make what was written the save of this folder, in one step; then remove what was there before.

    Raises:
      ArrayError: The arrays are gone: another save into this folder has ended meanwhile.
    """
    if save.arrays and not (folder / save.arrays).is_dir():
        raise ArrayError(
            f"{str(folder)!r} has another save by now, which has removed the arrays of this one. Nothing was "
            "saved; give each session a folder of its own."
        )
    before = _written(folder)
    text = json.dumps(
        {
            "format": FORMAT,
            "arrays": save.arrays,
            # The new file also lists the old tokens until the next save, in case this process ends before it has
            # removed their files.
            "replaced": [p.name for p in before if p.name.startswith(ARRAYS)],
            "processes": save.processes,
            "variables": [dataclasses.asdict(variable) for variable in save.variables],
        }
    )
    new = folder / f"{FILE}.{token}"
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE)
    # Marks are removed last: if this process ends here, the next save still recognizes what is left.
    for one in sorted(before, key=lambda path: path.name.startswith(MARKER)):
        if one.name != save.arrays:
            _remove(one)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _written(folder: Path) -> list[Path]:
    """Return all that saves have written here but the file: names with a token from the file or the marks."""
    names = [path.name for path in folder.iterdir()]
    tokens = {name.removeprefix(MARKER) for name in names if name.startswith(MARKER)}
    try:
        data = json.loads((folder / FILE).read_text())
        named = [data["arrays"], *data.get("replaced", [])]
        tokens |= {name.removeprefix(ARRAYS) for name in named if name.startswith(ARRAYS)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # there is no file, or it is not whole
    ours = {token for token in tokens if re.fullmatch(TOKEN, token)}
    pattern = re.compile(
        rf"(?:{MARKER}|{re.escape(FILE)}\.)({TOKEN})|{ARRAYS}({TOKEN})(?:\.orbax-checkpoint-tmp.*)?"
    )
    found = []
    for name in names:
        match = pattern.fullmatch(name)
        if match is not None and (match[1] or match[2]) in ours:
            found.append(folder / name)
    return found


def read(folder: Path, host: str) -> SaveFile:
    """Return the save that is in a folder, as this host sees it.

    Raises:
      ArrayError: The folder has no save, no whole one, or one that this nbdist cannot read.
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
        found = SaveFile(
            arrays=_arrays(data["arrays"]),
            processes=data["processes"],
            variables=tuple(decode(SavedVariable, one) for one in data["variables"]),
        )
        for variable in found.variables:
            _refuse_name(variable.name)
    except (AttributeError, KeyError, TypeError, ValueError, WireError) as error:
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
        return "it is incomplete: the save was not finished, or only its arrays were copied"
    return f"it has no {FILE}"


def skeleton_of(variable: SavedVariable) -> Any:
    """Return the variable with numbers in place of its parts.

    Raises:
      ArrayError: The variable has containers of other classes, or is not as it was written.
    """
    try:
        if variable.structure is None:
            raise TypeError("some of its containers are of other classes than dict, list and tuple")
        return made(variable.structure)
    except (TypeError, ValueError) as error:
        raise ArrayError(
            f"{variable.name} cannot be made anew: {error}. Make a value of the same structure under the name "
            f"{variable.name}, such as by the function that initializes it, and restore again. No variable was "
            "changed."
        ) from error


def _arrays(name: str) -> str:
    """Return the name of the folder of the arrays; empty if there are none.

    Raises:
      ValueError: No save writes such a name, so it may lead to a folder elsewhere.
    """
    if name and not re.fullmatch(f"{ARRAYS}{TOKEN}", name):
        raise ValueError(f"{name!r} is no folder of a save")
    return name


def _refuse_name(name: str) -> None:
    """Raise an error for a name that must not be set in the processes' namespaces.

    Raises:
      ValueError: The text is no name, or a name that Python itself uses.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
        raise ValueError(f"{name!r} is no name of a variable")


def is_builtin(name: str) -> bool:
    """Return whether Python itself has something under this name, such as `print`."""
    return hasattr(builtins, name)
