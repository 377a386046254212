"""The user's files that are to be on every host: the paths that `--sync` names, and the files below them."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import OptionError
from nbdist.notation import bytes_text, count_text
from nbdist.spelling import option

IGNORED = frozenset({".git", "__pycache__", ".venv", "node_modules", ".ipynb_checkpoints"})
"""Folders that are not copied; neither is any virtual environment of another name."""

FILE_BYTES = 50 << 20
"""Larger files are not copied; they are named instead."""

ALL_BYTES = 500 << 20
ALL_FILES = 20_000
"""A copy that would be larger is refused: most likely a folder was named that holds data."""

RACY_SECONDS = 2.0
"""A file changed less than this many seconds ago may change again without a new time of change, so it is read
anew."""

NAMED_LEFT_OUT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPath:
    """One path that `--sync` names.

    `path` is its real path on this machine. `name` is the folder of the copy that is put on `sys.path` of remote
    processes. `inside` is where in the copy the files of `path` lie: equal to `name` for a folder of modules, one
    level deeper for a package or a single file.
    """

    path: Path
    name: str
    inside: str

    @property
    def base(self) -> Path:
        """The folder to put on `sys.path` of processes on this machine."""
        return self.path if self.inside == self.name else self.path.parent

    def path_in_copy(self, path: Path) -> str | None:
        """Return where in the copy a path of this machine lies; None if it is outside."""
        if not path.is_relative_to(self.path):
            return None
        rest = path.relative_to(self.path).as_posix()
        return self.inside if rest == "." else f"{self.inside}/{rest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file to be copied, `name` in the copy; `mode` has the permission bits alone."""

    name: str
    path: Path
    size: int
    mode: int
    changed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFiles:
    """All files of all sources, by name in the copy; `left_out` names files that are not copied, and why."""

    files: dict[str, File]
    left_out: tuple[str, ...]


def sources(paths: Sequence[str]) -> tuple[SyncPath, ...]:
    """Return the sources that the paths name, each once; a folder with `__init__.py` is a package.

    Raises:
      OptionError: A path does not exist, or is neither a folder nor a Python file.
    """
    found: list[SyncPath] = []
    for text in paths:
        path = Path(text).expanduser()
        if not path.exists():
            raise OptionError(
                f"{option('sync', text)}: there is no such file or folder on this machine."
            )
        path = path.resolve()
        if not path.is_dir() and path.suffix != ".py":
            raise OptionError(f"{option('sync', text)}: expected a folder or a .py file.")
        if any(path == source.path for source in found):
            continue
        name = (path.name if path.is_dir() else path.stem) or "root"
        taken = [source.name for source in found]
        unique = next(
            n for i in itertools.count(1) if (n := f"{name}-{i}" if i > 1 else name) not in taken
        )
        modules = path.is_dir() and not (path / "__init__.py").is_file()
        found.append(
            SyncPath(path=path, name=unique, inside=unique if modules else f"{unique}/{path.name}")
        )
    return tuple(found)


def walk(found: Sequence[SyncPath]) -> SyncFiles:
    """Return the files that are to be copied now; read no contents.

    Raises:
      OptionError: There are too many files or bytes (the error says where most lie); or a source is gone: that
        must not remove its files from the hosts.
    """
    files: dict[str, File] = {}
    left_out: list[str] = []
    total = 0
    for source in found:
        if not source.path.exists():
            raise OptionError(
                f"{option('sync', source.path)}: is no longer there; nothing was changed."
            )
        for name, path in _paths(source, left_out):
            file = _file(name, path, left_out)
            if file is None:
                continue
            files[name] = file
            total += file.size
            if total > ALL_BYTES or len(files) > ALL_FILES:
                raise OptionError(_too_much(source, files))
    return SyncFiles(files=files, left_out=tuple(left_out))


def _paths(source: SyncPath, left_out: list[str]) -> Iterator[tuple[str, Path]]:
    if not source.path.is_dir():
        yield source.inside, source.path
        return
    yield from _below(source, source.path, source.inside, (source.path,), left_out)


def _below(
    source: SyncPath, folder: Path, name: str, within: tuple[Path, ...], left_out: list[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the files of one folder and its subfolders; `within` are its real parent folders, against loops."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        left_out.append(f"{name}/ ({error.strerror})")
        return
    for entry in entries:
        path, inside = Path(entry.path), f"{name}/{entry.name}"
        if entry.is_symlink():
            path = Path(os.path.realpath(entry.path))
            if not path.is_relative_to(source.path):
                left_out.append(f"{inside} (a link out of {source.path})")
                continue
        if path.is_dir():
            ignored = entry.name in IGNORED or (path / "pyvenv.cfg").is_file()
            if not ignored and path not in within:
                yield from _below(source, path, inside, (*within, path), left_out)
        else:
            yield inside, path


def _file(name: str, path: Path, left_out: list[str]) -> File | None:
    """Return one file; None if it cannot be copied."""
    try:
        found = path.stat()
    except OSError:
        return None  # gone since its folder was read, or a link to nothing
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_size > FILE_BYTES:
        left_out.append(f"{name} ({bytes_text(found.st_size)})")
        return None
    if not os.access(path, os.R_OK):
        left_out.append(f"{name} (not readable)")
        return None
    return File(
        name=name,
        path=path,
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode) & 0o777,
        changed_ns=found.st_mtime_ns,
    )


def _too_much(source: SyncPath, files: dict[str, File]) -> str:
    sizes: Counter[str] = Counter()
    for file in files.values():
        first, *rest = Path(file.name).relative_to(source.name).parts
        sizes[f"{first}/" if rest else first] += file.size
    most = ", ".join(f"{name} {bytes_text(size)}" for name, size in sizes.most_common(3))
    return (
        f"{option('sync', source.path)}: more than {bytes_text(ALL_BYTES)} or {ALL_FILES:,} files, of which "
        f"{most}; nothing was sent. Name the folders that hold your modules, and bring data to the hosts "
        "another way."
    )


def left_out_text(left_out: Sequence[str]) -> str | None:
    """Return one line about files that were not copied; None if all were."""
    if not left_out:
        return None
    shown = ", ".join(left_out[:NAMED_LEFT_OUT])
    more = len(left_out) - NAMED_LEFT_OUT
    rest = f" and {count_text(more, 'other')}" if more > 0 else ""
    return f"not copied: {shown}{rest}"


class Hashes:
    """SHA-256 of files; a file is read again only when its size or time of change differs."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, int, str]] = {}

    def of(self, file: File) -> str | None:
        """Return the digest as hexadecimal text; None if the file has vanished."""
        known = self._known.get(file.path)
        if known is not None and known[:2] == (file.size, file.changed_ns):
            return known[2]
        try:
            with file.path.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError:
            return None
        if time.time() - file.changed_ns / 1e9 > RACY_SECONDS:
            self._known[file.path] = (file.size, file.changed_ns, digest)
        return digest
