"""The copy of the user's files on one host, kept by the agent there in the session's private folder.

See `FileOrder` in `nbdist.contract.orders` and `FileEvent` in `nbdist.contract.events`. Names are relative to the
folder of the copy.

New files are all written beside the copy first, and then take the places of the old ones: no reader sees half a
file, and if the disk has no room for the new files, the old ones stay as they are. A file that a cell has written
is removed only if a file of the user's takes its place.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from nbdist.contract.events import Events, FilesDone, FilesFailed, FilesNeeded
from nbdist.contract.orders import (
    AskForFiles,
    CommitFiles,
    DropFile,
    FileOrder,
    ListFiles,
    WriteFile,
)

FOLDER = "files"


class RefusedOrder(Exception):
    """An order that must not, or cannot, be obeyed."""


@dataclass(frozen=True)
class WantedFile:
    """A file as it is to be; `mode` has only the permission bits."""

    size: int
    mode: int
    sha256: str


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written here, and its identity in the file system: a cell may have changed it since."""

    wanted: WantedFile
    known_as: tuple[int, int, int]


class FileCopies:
    """The files of the copy, changed by orders.

    Args:
      folder: The session's private folder.
      events: Gets the answers.
    """

    def __init__(self, folder: str, events: Events) -> None:
        self.root = Path(folder) / FOLDER
        self._staging = Path(folder) / f"{FOLDER}.new"
        self._events = events
        self._kept: dict[str, WrittenFile] = {}
        self._id: str | None = None
        self._failed = False
        self._wanted: dict[str, WantedFile] = {}
        self._arrived: dict[str, Path] = {}
        self._open: tuple[str, BinaryIO, Any] | None = None
        self._numbers = itertools.count()

    def obey(self, order: FileOrder) -> None:
        """Obey one order; report an error once, and drop the rest of that copying."""
        if order.id != self._id:
            self._begin(order.id)
        if self._failed:
            return
        try:
            self._obey(order)
        except (OSError, RefusedOrder) as error:
            self._failed = True
            self._clear()
            self._events.send(FilesFailed(id=order.id, error=_text(error)))

    def _obey(self, order: FileOrder) -> None:
        match order:
            case ListFiles(files=files):
                for one in files:
                    mode = stat.S_IMODE(one.mode) & 0o777
                    self._wanted[checked(one.name)] = WantedFile(one.size, mode, one.sha256)
            case AskForFiles(id=name):
                needs = [at for at, file in enumerate(self._wanted) if not self._is_here(file)]
                self._events.send(FilesNeeded(id=name, needs=tuple(needs)))
            case WriteFile():
                self._write(order.name, base64.b64decode(order.data), order.sha256)
            case DropFile(name=name):
                self._drop(name)
            case CommitFiles(id=name):
                self._commit(name)

    def _begin(self, name: str) -> None:
        self._clear()
        self._id, self._failed, self._wanted = name, False, {}

    def _clear(self) -> None:
        if self._open is not None:
            with contextlib.suppress(OSError):
                self._open[1].close()
            self._open = None
        self._arrived = {}
        shutil.rmtree(self._staging, ignore_errors=True)

    def _is_here(self, name: str) -> bool:
        kept = self._kept.get(name)
        return (
            kept is not None
            and kept.wanted.sha256 == self._wanted[name].sha256
            and kept.known_as == _known_as(self.root / name)
        )

    def _write(self, name: str, data: bytes, sha256: str | None) -> None:
        if name not in self._wanted:
            raise RefusedOrder(f"{name!r} was not announced")
        if self._open is None or self._open[0] != name:
            if self._open is not None:
                raise RefusedOrder(f"{self._open[0]} is not complete")
            self._staging.mkdir(mode=0o700, exist_ok=True)
            path = self._staging / str(next(self._numbers))
            self._arrived[name] = path
            self._open = (name, path.open("wb"), hashlib.sha256())
        _, file, digest = self._open
        file.write(data)
        digest.update(data)
        if sha256 is None:
            return
        file.close()
        self._open = None
        if digest.hexdigest() != sha256:
            raise RefusedOrder(f"{name} has not arrived as it was sent")
        # The file may have changed after it was announced.
        size = self._arrived[name].stat().st_size
        self._wanted[name] = WantedFile(size, self._wanted[name].mode, sha256)

    def _drop(self, name: str) -> None:
        if self._open is not None and self._open[0] == name:
            self._open[1].close()
            self._open = None
        self._wanted.pop(name, None)
        self._arrived.pop(name, None)

    def _commit(self, name_of_copying: str) -> None:
        lacking = [n for n in self._wanted if n not in self._arrived and not self._is_here(n)]
        if lacking or self._open is not None:
            raise RefusedOrder(f"{lacking[0] if lacking else 'a file'} has not arrived")
        gone = self._kept.keys() - self._wanted.keys()
        # Steps that may fail for lack of space come before any change.
        for name in self._arrived:
            self._make_folder(PurePosixPath(name).parent, gone)
        for name in gone:
            self._remove(name)
        for name, path in self._arrived.items():
            self._place(name, path)
        for name in self._wanted.keys() - self._arrived.keys():
            self._set_mode(name)
        done = FilesDone(
            id=name_of_copying,
            sent=len(self._arrived),
            files=len(self._wanted),
            removed=len(gone),
        )
        self._clear()
        self._events.send(done)

    def _make_folder(self, inside: PurePosixPath, gone: set[str]) -> None:
        """Make a folder of the copy; refuse one that leads elsewhere through a link."""
        self.root.mkdir(mode=0o700, exist_ok=True)
        for part in [*reversed(inside.parents), inside]:
            path = self.root / part
            if path.is_symlink():
                raise RefusedOrder(f"{path} is a link, and nothing is written through it")
            if str(part) in gone and path.is_file():
                path.unlink()
            if not path.is_dir():
                path.mkdir(mode=0o700)

    def _place(self, name: str, arrived: Path) -> None:
        target, wanted = self.root / name, self._wanted[name]
        arrived.chmod(wanted.mode)
        arrived.replace(target)
        _remove_compiled(target)
        known_as = _known_as(target)
        assert known_as is not None
        self._kept[name] = WrittenFile(wanted, known_as)

    def _set_mode(self, name: str) -> None:
        kept, wanted = self._kept[name], self._wanted[name]
        if kept.wanted.mode != wanted.mode:
            (self.root / name).chmod(wanted.mode)
            self._kept[name] = WrittenFile(wanted, kept.known_as)

    def _remove(self, name: str) -> None:
        """Remove one file, and the folders that are empty without it, unless processes may work there."""
        self._kept.pop(name)
        target = self.root / name
        # A folder may have taken its name by now.
        if not target.is_dir() or target.is_symlink():
            target.unlink(missing_ok=True)
        _remove_compiled(target)
        for folder in PurePosixPath(name).parents:
            path = self.root / folder
            with contextlib.suppress(OSError):
                (path / "__pycache__").rmdir()
            try:
                if path in (self.root, Path.cwd()):
                    return
                path.rmdir()
            except OSError:
                return


def checked(name: object) -> str:
    """Return the name of a file in the copy.

    Raises:
      RefusedOrder: The name leads out of the copy, or is not the name of a file.
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise RefusedOrder(f"{name!r} is not the name of a file")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name or name == ".":
        raise RefusedOrder(f"{name!r} leads out of the folder of the copy")
    return name


def _text(error: Exception) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.strerror} ({error.filename})" if error.filename else error.strerror


def _known_as(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _remove_compiled(source: Path) -> None:
    """Remove byte code: Python would use it for a new source of the same size and second."""
    if source.suffix == ".py":
        for path in source.parent.glob(f"__pycache__/{glob.escape(source.stem)}.*.pyc"):
            with contextlib.suppress(OSError):
                path.unlink()


def put_on_path(folders: Sequence[str]) -> None:
    """Make this process, and the Python processes it starts, find modules in these folders before others."""
    if not folders:
        return
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([others] if others else [])])
