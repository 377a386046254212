"""libtpu, the library with the compiler for TPUs: its place, its installation, and how its processes end.

The installed JAX needs one version of libtpu. Live sessions do not need libtpu, and if they found it, JAX would
look for TPUs. So `nbdist rehearse --install` puts it into a folder of its own, which only the processes of
rehearsals know.

Imports no framework.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nbdist.errors import RehearsalError
from nbdist.notation import bytes_text

VARIABLE = "TPU_LIBRARY_PATH"
"""Variable that names the library that JAX loads in place of an installed one."""

_REQUIRED = re.compile(r"libtpu\s*==\s*([\d.]+)(\.\*)?\s*;.*extra\s*==\s*['\"]tpu['\"]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Libtpu:
    """The library.

    Attributes:
      path: The path of `libtpu.so`.
      version: The version of its package; None if no package lies beside it.
    """

    path: Path
    version: str | None


def wanted() -> str:
    """Return the libtpu version that the installed JAX requires, such as `0.0.50.*`.

    Raises:
      RehearsalError: JAX is not installed, or does not say.
    """
    try:
        lines = importlib.metadata.requires("jax") or []
    except importlib.metadata.PackageNotFoundError:
        raise RehearsalError(f"JAX is not installed in {sys.prefix}: pip install jax.") from None
    for line in lines:
        if match := _REQUIRED.match(line):
            return match[1] + (match[2] or "")
    raise RehearsalError(
        f"JAX {importlib.metadata.version('jax')} does not say which libtpu it needs. Update JAX: pip install -U "
        "jax."
    )


def user_cache() -> Path:
    """Return nbdist's cache folder for this user; it may not exist yet.

    Source: the XDG base directory specification.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nbdist"


def folder(version: str) -> Path:
    """Return the folder into which `nbdist rehearse --install` puts the library.

    Args:
      version: As `wanted` returns it.
    """
    return user_cache() / f"libtpu-{version.removesuffix('.*')}"


def in_folder(version: str) -> Libtpu | None:
    """Return the library in its own folder; None if it is missing or not the version that JAX needs."""
    found = _beside(folder(version) / "libtpu" / "libtpu.so")
    return found if found is not None and _matches(found.version, version) else None


def find() -> Libtpu:
    """Return the library named by the variable, in the environment, or in the folder; in this order.

    Raises:
      RehearsalError: No library, or not the version that JAX needs; the message says what to type.
    """
    version = wanted()
    named = _named()
    # A wrong version in the environment must not hide the one that `--install` put into its folder.
    others = [] if named else [_installed(), _beside(folder(version) / "libtpu" / "libtpu.so")]
    there: list[Libtpu] = [one for one in (named, *others) if one is not None]
    for one in there:
        if _matches(one.version, version):
            return one
    jax = importlib.metadata.version("jax")
    if not there:
        raise RehearsalError(
            f"A rehearsal compiles with libtpu, which is not installed. Type nbdist rehearse --install, which "
            f"puts libtpu {version}, which JAX {jax} needs, into a folder of its own ({folder(version)}, 700 MB): "
            "no session's environment has it, as JAX would look for TPUs there. No TPU is needed."
        )
    unset = f" and unset {VARIABLE}" if VARIABLE in os.environ else ""
    raise RehearsalError(
        f"libtpu {there[0].version} ({there[0].path}) does not belong to JAX {jax}, which needs libtpu {version}. "
        f"Type nbdist rehearse --install{unset}."
    )


def variables(found: Libtpu) -> dict[str, str]:
    """Return the variables with which JAX loads the library without looking at the TPUs of this machine."""
    return {
        VARIABLE: str(found.path),
        # Otherwise libtpu locks the TPUs, if there are any, against other processes, such as a session's.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        # Otherwise libtpu spends minutes asking a metadata server for this machine's pod, or logs that it cannot.
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": "v5litepod-1",
        "TPU_WORKER_ID": "0",
    }


def _named() -> Libtpu | None:
    path = os.environ.get(VARIABLE)
    if path is None:
        return None
    if not Path(path).is_file():
        raise RehearsalError(
            f"{VARIABLE} names {path}, which is no file. Let it name a libtpu.so, or unset it."
        )
    return _beside(Path(path))


def _installed() -> Libtpu | None:
    try:
        package = importlib.metadata.distribution("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(package.locate_file("libtpu/libtpu.so")))
    return Libtpu(path=path, version=package.version) if path.is_file() else None


def _beside(path: Path) -> Libtpu | None:
    """Return the library in an unpacked package, whose version lies beside its folder."""
    if not path.is_file():
        return None
    found = sorted(path.parent.parent.glob("libtpu-*.dist-info"))
    version = found[0].name.removeprefix("libtpu-").removesuffix(".dist-info") if found else None
    return Libtpu(path=path, version=version)


def _matches(version: str | None, asked: str) -> bool:
    if version is None:
        return True
    if asked.endswith(".*"):
        return version == asked[:-2] or version.startswith(asked[:-1])
    return version == asked


def install(say: Callable[[str], None] = print) -> int:
    """Install the compiler that the installed JAX needs into its folder with pip, completely or not at all.

    Args:
      say: Called with a sentence about what was done.

    Returns:
      0, or the exit code of pip, which has then printed why and has left no files.

    Raises:
      RehearsalError: pip is not there, or the folder cannot be made.
    """
    version = wanted()
    target = folder(version)
    there = in_folder(version)
    if there is not None:
        say(f"libtpu {there.version or version} is there already: {target}")
        return 0
    if importlib.util.find_spec("pip") is None:
        raise RehearsalError(
            f"{sys.executable} has no pip. Install it (python -m ensurepip), or let another installer put "
            f"libtpu=={version} into {target}: uv pip install --no-deps --target {target} libtpu=={version}"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise RehearsalError(
            f"{target.parent} cannot be made, where libtpu is to lie: {error.strerror}. Let XDG_CACHE_HOME name a "
            "folder that can be written to."
        ) from error
    try:
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(partial)]
        # Without pip's option for the user's packages, which pip refuses beside `--target`.
        code = subprocess.call([*pip, f"libtpu=={version}"], env={**os.environ, "PIP_USER": "0"})
        if code == 0:
            # Anything at `target` is not the library: a library would have been found.
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if code == 0:
        found = in_folder(version)
        if found is None:
            raise RehearsalError(f"pip has put no libtpu {version} into {target}.")
        say(f"libtpu {found.version or version} is installed: {target}")
    return code


LOOKED_AT = 65536
"""Number of characters of the last output that are searched for the words for a lack of memory.

After these words come a hundred lines of how the compiler aborts.
"""

LAST = 4000
"""Number of characters of the last output that are shown."""

_NO_MEMORY = re.compile(r"Cannot allocate memory|mmap error: 12\b|bad_alloc")
"""Messages of libtpu, the C library and C++ about a lack of memory."""

_LESS = "A smaller program, such as a scan over layers in place of a loop over them, needs less."


def process_variables() -> dict[str, str]:
    """Return the environment variables of a rehearsal's process.

    Raises:
      RehearsalError: libtpu is not there.
    """
    return {
        **os.environ,
        **variables(find()),
        # The pod takes the place of JAX's TPU; values needed while a program is traced are computed on the CPU.
        "JAX_PLATFORMS": "tpu,cpu",
        # JAX cannot load what its own cache keeps for devices that are not there, and would warn each time.
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }


def how_it_ended(code: int | None, said: str | None = None) -> str:
    """Return one or two sentences that say how a process ended.

    Args:
      code: Its exit code; negative for a signal, None if it is not known.
      said: Its last output; None if that went elsewhere.
    """
    if code == -signal.SIGKILL:
        return (
            f"The rehearsal's process was killed (signal 9): as a rule this machine, which has {_memory()}, had "
            f"not enough memory to compile. {_LESS}"
        )
    signalled = code is not None and code < 0
    how = f"by signal {-(code or 0)}" if signalled else f"with exit code {code}"
    ended = f"The rehearsal's process ended {how}"
    if lacks_memory(code, said):
        return (
            f"{ended}: it was given no more memory to compile. This machine has {_memory()}; a limit may be lower "
            f"(ulimit -v). {_LESS}"
        )
    if signalled and said is None:
        return f"{ended}. Where its last words above speak of memory: this machine has {_memory()}. {_LESS}"
    return f"{ended}."


def lacks_memory(code: int | None, said: str | None) -> bool:
    """Return whether a process ended for want of memory; arguments as for `how_it_ended`."""
    aborted = code is not None and code < 0
    return code == -signal.SIGKILL or (aborted and _NO_MEMORY.search(said or "") is not None)


def end_of(file: IO[bytes]) -> str:
    """Return the end of what a process has written to a file: `LOOKED_AT` bytes."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LOOKED_AT))
    return file.read().decode(errors="replace").strip()


def _memory() -> str:
    return bytes_text(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
