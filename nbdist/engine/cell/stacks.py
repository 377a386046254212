"""Stacks of this process's threads, read from another thread; whose code is on a stack; what a thread waits for.

`MainThread` is a thread seen from others: its stack, its processor time, and whether it is blocked in a call.
`stack_reader` reads a stack as plain data, without frame objects in versions of Python where these are not safe.
`stacks` gives the stacks of all threads as text; `native_stacks` goes down into C and C++, with py-spy.

`CodeOwners` tells from a file's name whose code it is: a cell's file, a file in the package of a framework, in the
standard library or IPython; every other file is the user's.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import linecache
import operator
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from types import FrameType
from typing import Any, NamedTuple, Protocol

from nbdist.contract.asides import NativeStacks, ThreadStack


class Packaged(Protocol):
    """A framework, as far as its modules are concerned."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The first parts of the names of its modules."""


def packages_of(frameworks: Iterable[Packaged]) -> frozenset[str]:
    """Return the packages of all these frameworks.

    They tell whose code a file is, and whose classes are arrays and containers.
    """
    return frozenset(name for one in frameworks for name in one.packages)


CELL_FILE = re.compile(r"[/\\]ipykernel_\d+[/\\][^/\\]+\.py$|^<ipython-input-|^<nbdist cell ")
"""The pattern of the file names that ipykernel, IPython and nbdist give to the code of a cell."""

STANDARD_LIBRARY = os.__file__.rpartition(os.sep)[0] + os.sep
"""The folder of the standard library, with a separator at its end."""


class StackEntry(NamedTuple):
    """One entry of a stack; `line` is 1-based, None where the instruction belongs to no line."""

    filename: str
    function: str
    line: int | None


Stack = tuple[StackEntry, ...]
"""The entries of a stack, innermost first."""


class Owner(Packaged, Protocol):
    """A framework, as the owner of code."""

    @property
    def waits(self) -> Mapping[tuple[str, str], str]:
        """Functions of nbdist that poll, by file name and name; the innermost frame is then of no meaning.

        The value is "framework" for a wait in the framework's place, "agreement" for a wait for other processes.
        """

    def is_compiling(self, path: str, function: str, /) -> bool:
        """Return whether a function belongs to tracing, lowering or compilation.

        Args:
          path: The path of the function's file in the folder of the first of `packages`, with slashes.
          function: The function's name.
        """
        ...


class CodeOwners:
    """The test of whose code a file or stack is, given these frameworks."""

    def __init__(self, frameworks: Iterable[Owner]) -> None:
        self._frameworks = tuple(frameworks)
        self._packages = tuple(sorted(packages_of(self._frameworks)))
        self._waits = {at: kind for one in self._frameworks for at, kind in one.waits.items()}

    def side(self, filename: str) -> str:
        """Return the owner of a file's code: "framework", "library" or "user"."""
        if is_cell_file(filename):
            return "user"
        if filename.startswith(folders(*self._packages)):
            return "framework"
        if _is_kernel_file(filename) or filename.startswith("<frozen "):
            return "library"
        standard = filename.startswith(STANDARD_LIBRARY) and "site-packages" not in filename
        return "library" if standard else "user"

    def wait(self, stack: Stack) -> str | None:
        """Return the kind of nbdist's own wait that a stack passes through; None where it passes through none."""
        found = (self._waits.get((filename, function)) for filename, function, _ in stack)
        return next(filter(None, found), None)

    def is_compiling(self, stack: Stack) -> bool:
        """Return whether a stack passes through a framework's tracing, lowering or compilation."""
        for framework in self._frameworks:
            for folder in folders(framework.packages[0]):
                for filename, function, _ in stack:
                    if filename.startswith(folder):
                        path = filename[len(folder) :].replace(os.sep, "/")
                        if framework.is_compiling(path, function):
                            return True
        return False


def folders(*packages: str) -> tuple[str, ...]:
    """Return the folders, each ending in a separator, of those packages that have been imported."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in packages)
    return tuple(file.rpartition(os.sep)[0] + os.sep for file in files if file)


def outside(*packages: str) -> int:
    """Return the `stacklevel` at which the caller's warning names the first frame outside these packages."""
    own = folders(*packages)
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    return level


def is_cell_file(filename: str) -> bool:
    """Return whether code of this file name was compiled from a cell."""
    return CELL_FILE.search(filename) is not None


def _is_kernel_file(filename: str) -> bool:
    return not {"IPython", "ipykernel", "ipyparallel", "zmq"}.isdisjoint(PurePath(filename).parts)


FUTEX = {"x86_64": 202, "aarch64": 98}
"""Numbers of the `futex` system call, in which C++ code waits for another thread, by machine (Linux headers)."""

LOOKS, LOOK_SECONDS = 3, 0.006
"""How often, and how many seconds apart, to check that a thread is still blocked in one call and has not run.

A thread that waits for the lock of the interpreter wakes every 5 ms to ask for the lock (`sys.getswitchinterval`).
With looks 1 ms apart, such a thread was taken for blocked 6 times in 130,000, beside threads that take the lock in
turn, on a busy machine."""

FRAME_OBJECTS_SINCE = (3, 11, 5)
"""First version in which other threads may read frame objects safely. Before, a frame object made for a running
function may be read after it was freed, which ends the process (https://github.com/python/cpython/issues/106092).
Python code runs without frame objects until somebody asks for them, so only our look at another
thread can cause this crash."""

COLLECTIONS_WAIT_SINCE = (3, 12)
"""First version in which the garbage collector starts between two instructions only. Before, it starts wherever an
object is made, and `sys._current_frames` makes frame objects while it holds the lock of the interpreter's threads.
Garbage with a `threading.local` in it takes that lock once more, and the whole process stands still
(https://github.com/python/cpython/issues/106883). Each graph of TensorFlow has a `threading.local`."""

DUMPED_LINE = re.compile(r'^  File (?:"(.*)"|\?\?\?), line (\d+|\?\?\?) in (.*)$', re.MULTILINE)
DUMPED_CHARACTER = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
"""Patterns of an entry and of an escaped character in text of `faulthandler`. Source: `dump_frame` and
`_Py_DumpASCII` in CPython's traceback.c."""


class MainThread:
    """One thread of this process, seen from others.

    Args:
      ident: Its `threading.Thread.ident`. It must outlive this object.
    """

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self._clock = _clock_of(ident)
        self._system_call = _system_call_file(ident)
        self._looked = (0.0, 0.0)
        self._read_stack = stack_reader(sys.version_info[:3])

    def stack(self) -> Stack:
        """Return its Python stack, innermost first; empty where not known. Call from one thread at a time."""
        return self._read_stack(self.ident)

    def busy_share(self) -> float | None:
        """Return processor time over wall time since the last call; None where the system does not say."""
        if self._clock is None:
            return None
        processor, wall = time.clock_gettime(self._clock), time.monotonic()
        before, self._looked = self._looked, (processor, wall)
        return (processor - before[0]) / max(wall - before[1], 1e-6)

    def waits_for_a_thread(self) -> bool | None:
        """Return whether the thread is blocked until another thread goes on, not in a sleep or on a socket.

        The result is None where the system does not say (not Linux, or forbidden there).
        """
        number = FUTEX.get(platform.machine())
        if number is None or self._system_call is None:
            return None
        try:
            blocked_in = self._system_call.read_text()
            if blocked_in.split(maxsplit=1)[0] != str(number):
                return False
            # The thread may be waiting for the interpreter's lock, which the calling thread holds now and releases
            # in a sleep. After the sleep the thread may be in the same call again, but then it has used processor
            # time.
            used = self._processor_time()
            for _ in range(LOOKS):
                time.sleep(LOOK_SECONDS)
                if self._system_call.read_text() != blocked_in or self._processor_time() != used:
                    return False
        except (OSError, IndexError):
            return None
        return True

    def waits_in_threading(self) -> bool:
        """Return whether the innermost Python code is `threading`'s, as for an event: a signal ends that wait."""
        stack = self.stack()
        return bool(stack) and stack[0].filename == threading.__file__

    def _processor_time(self) -> int | None:
        """Return the processor time in nanoseconds; None where the system does not say."""
        return None if self._clock is None else time.clock_gettime_ns(self._clock)


def stack_reader(version: tuple[int, ...]) -> Callable[[int], Stack]:
    """Return a function that reads a thread's stack, given its ident, safely in this version of Python."""
    return stack_of_frames if version >= FRAME_OBJECTS_SINCE else StackDump().read


def stack_of_frames(ident: int) -> Stack:
    """Return a thread's whole stack from its frame objects, keeping none; empty where there is no such thread."""
    lines = []
    frame: FrameType | None = current_frames().get(ident)
    while frame is not None:
        code = frame.f_code
        lines.append(StackEntry(code.co_filename, code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)


def current_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by its ident; collect no garbage meanwhile."""
    if sys.version_info >= COLLECTIONS_WAIT_SINCE or not gc.isenabled():
        return sys._current_frames()
    # All three calls run inside one call in C: no other thread runs in between, or finds collections switched off.
    calls = (gc.disable, sys._current_frames, gc.enable)
    try:
        answers: tuple[Any, ...] = tuple(map(operator.call, calls))
    except BaseException:  # raised again; collections go on
        gc.enable()
        raise
    frames: dict[int, FrameType] = answers[1]
    return frames


class StackDump:
    """A reader of stacks as `faulthandler` writes them, which makes no frame objects.

    Limits: the innermost 100 entries of a stack, 500 characters of a name, and the 100 threads that were started
    last. A cell below the innermost 100 entries is not found. Where a name has a backslash before text that
    looks like an escape, the reader takes the character that the escape would stand for.
    """

    def __init__(self) -> None:
        self._file = _private_file()
        # The file is not closed at exit: a probe may still read stacks, and the descriptor's number may belong to
        # another file by then.
        weakref.finalize(self, os.close, self._file).atexit = False

    def read(self, ident: int) -> Stack:
        """Return a thread's stack; empty where there is no such thread, or the dump leaves it out."""
        # Text of an earlier, longer dump may follow this one; it is not read.
        os.lseek(self._file, 0, os.SEEK_SET)
        faulthandler.dump_traceback(self._file, all_threads=True)
        size = os.lseek(self._file, 0, os.SEEK_CUR)
        os.lseek(self._file, 0, os.SEEK_SET)
        return dumped_stack(os.read(self._file, size).decode("ascii"), ident)


def dumped_stack(dump: str, ident: int) -> Stack:
    """Return one thread's stack from text of `faulthandler`; empty where the text leaves it out."""
    header = rf"^(?:Current thread|Thread) 0x0*{ident:x} .*\n((?:  .*\n)*)"
    section = re.search(header, dump, re.MULTILINE)
    if section is None:
        return ()
    return tuple(
        StackEntry(_undumped(filename), _undumped(function), int(line) if line.isdigit() else None)
        for filename, line, function in DUMPED_LINE.findall(section[1])
    )


def _undumped(name: str) -> str:
    return DUMPED_CHARACTER.sub(lambda escape: chr(int(escape[0][2:], 16)), name)


def _private_file() -> int:
    # In memory where the system can.
    create = getattr(os, "memfd_create", None)
    if create is not None:
        with contextlib.suppress(OSError):
            return int(create("nbdist-stack"))
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _clock_of(ident: int) -> int | None:
    # Not on macOS.
    getter = getattr(time, "pthread_getcpuclockid", None)
    if getter is None:
        return None
    with contextlib.suppress(OSError):
        return int(getter(ident))
    return None


def _system_call_file(ident: int) -> Path | None:
    if sys.platform != "linux":
        return None
    for thread in threading.enumerate():
        if thread.ident == ident:
            # Python 3.11 keeps the parent's native id after a fork; a process's main thread has its pid.
            main = thread is threading.main_thread()
            task = os.getpid() if main else thread.native_id
            return Path(f"/proc/{os.getpid()}/task/{task}/syscall")
    return None


LIMIT_SECONDS = 20.0
"""Longest run of py-spy, during which this process stands still."""


def native_stacks() -> NativeStacks:
    """Return the stacks of all threads of this process down into C and C++; call this on a thread of its own."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("py-spy", path=places)
    if program is None:
        return NativeStacks(
            error="py-spy is not installed; run pip install py-spy in the processes' environment"
        )
    command = [program, "dump", "--native", "--pid", str(os.getpid())]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return NativeStacks(error=f"py-spy did not end within {LIMIT_SECONDS:.0f} s")
    if done.returncode != 0 or not done.stdout.strip():
        said = (
            done.stderr.strip() or f"py-spy ended with exit code {done.returncode}"
        ).splitlines()
        return NativeStacks(
            error=f"{said[-1]} (py-spy needs the right to trace this process: ptrace)"
        )
    return NativeStacks(text=done.stdout.strip())


MOST_LINES = 200
"""Most lines of one stack, the innermost ones."""

CodeName = Callable[[str], "tuple[str, str] | None"]
"""A function that returns IPython's name for code of this file, as `("Cell", "In[3]")`; None for a real file."""


def stacks(code_name: CodeName) -> tuple[ThreadStack, ...]:
    """Return the stacks of the main thread, which comes first, and of all other threads but the calling one."""
    read = stack_reader(sys.version_info[:3])
    main, here = threading.main_thread(), threading.get_ident()
    others = [t for t in threading.enumerate() if t is not main and t.ident != here]
    return tuple(
        ThreadStack(
            name=thread.name,
            lines=tuple(
                _text(line, code_name) for line in reversed(read(thread.ident)[:MOST_LINES])
            ),
        )
        for thread in (main, *others)
        if thread.ident is not None
    )


def _text(line: StackEntry, code_name: CodeName) -> str:
    """Return an entry of a stack as a line of text, such as `Cell In[3], line 4, in step: y = f(x)`."""
    name = code_name(line.filename)
    where = line.filename if name is None else " ".join(name)
    source = linecache.getline(line.filename, line.line or 0).strip()
    at = f"{where}, line {line.line}, in {line.function}"
    return f"{at}: {source}" if source else at
