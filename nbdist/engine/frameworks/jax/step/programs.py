"""Programs of JAX: their labels, their collectives, and those that are under way.

The collectives of a program must be the same on all processes, or values are mixed up. So a program's text is
compared with the text on other processes, and after a repair with the text before the repair
(`ProgramCollectives`, `Recompiled`).

A program is under way until its outputs are computed (`arrays_under_way`). On CPU a program on small arrays runs
inside its call, and is counted only when the call returns. If the program waits inside that call for other
processes, another thread can tell so from the call that the main thread's innermost Python frame is in
(`calling`).

nbdist has one program of its own, `Gathering`, for proofs that processes are in step.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import linecache
import platform
import re
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from nbdist.engine.cell.stacks import FRAME_OBJECTS_SINCE, FUTEX, MainThread, current_frames
from nbdist.engine.frameworks.jax.arrays import plain_settings
from nbdist.engine.frameworks.jax.step.origins import shape_text

_OPERATION = re.compile(
    r" = (?P<shape>\([^=]*?\)|\S+) (?P<kind>all-reduce|all-gather|all-to-all|reduce-scatter|ragged-all-to-all"
    r"|collective-permute|collective-broadcast)(?:-start)?\((?P<rest>.*)"
)
_COMPUTATION = re.compile(r"^\s*%?(?P<name>[\w.-]+) \(.*\{$")
_ROOT = re.compile(r"^\s*ROOT %?[\w.-]+ = \S+ (?P<operation>[\w-]+)\(")
_APPLIED = re.compile(r"to_apply=%?([\w.-]+)")
_AMONG = re.compile(
    r"(?:replica_groups|source_target_pairs|dimensions)=.*?(?=, [a-z_]+=|, metadata|$)"
)
_COMMENT = re.compile(r"/\*.*?\*/")
_LAYOUT = re.compile(r"(?<=\])\{[^}]*\}")


def collectives(text: str) -> str:
    """Return one line for each collective of an optimized HLO module.

    An example is `all-reduce(add) f32[] replica_groups=[1,4]<=[4]`. No line depends on the process, on file names
    or on numbers that XLA assigns. Source of the format: `HloModule::ToString` (jaxlib 0.10.0 to 0.12.0.1).
    """
    text = _COMMENT.sub("", text)
    combines: dict[str, str] = {}
    computation = ""
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            computation = header["name"]
        elif root := _ROOT.match(line):
            combines[computation] = root["operation"]
    found = []
    for one in _OPERATION.finditer(text):
        applied = _APPLIED.search(one["rest"])
        with_what = f"({combines.get(applied[1], '?')})" if applied else ""
        among = " ".join(_AMONG.findall(one["rest"]))
        shape = _LAYOUT.sub("", one["shape"])
        found.append(f"{one['kind']}{with_what} {shape} {among}".rstrip())
    return "\n".join(found)


class ProgramCollectives:
    """Collectives of programs, each read once; no program is kept alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()

    def __contains__(self, program: Any) -> bool:
        """Return whether a program was read before."""
        return program in self._known

    def read(self, program: Any, modules: Callable[[], Any]) -> str | None:
        """Read a new program; return its HLO text, None if the back end does not give it.

        Args:
          program: The object by which the program is known.
          modules: Returns the program's HLO modules.
        """
        self._known[program] = None
        try:
            texts = [m.to_string() for m in modules()]
        except Exception:  # noqa: BLE001 - the back end cannot give the text
            return None
        self._known[program] = "\n".join(map(collectives, texts))
        return "\n".join(texts)

    def of(self, program: Any) -> str | None:
        """Return the collectives of a program that was read; None if the back end does not give its text."""
        return self._known.get(program)


_PLACES = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*")
"""Tables of the source lines that operations come from, and of the calls that led there."""
_REMARKS = re.compile(r", (?:metadata=\{.*?\}(?=,|$)|backend_config=.*$)", re.MULTILINE)
"""Remarks at the end of an operation: its source, and the back end's configuration for it."""


class Recompiled:
    """The programs of each function, compared after a repair with those from before it.

    A function that `jax.jit` has compiled keeps the values that it found in globals, closures and attributes, even
    if those are set later. After a repair the function is compiled again, and finds the newer values. Programs are
    known as long as their function lives.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, dict[int, tuple[int, bytes]]] = (
            weakref.WeakKeyDictionary()
        )

    def note(self, function: Any, arguments: int, text: str, generation: int) -> bool:
        """Note a compiled program; return whether it was a different one before a repair.

        Args:
          function: The function that was compiled; one that allows no weak references is not compared.
          arguments: The result of `described` for its arguments; 0: not compared.
          text: The optimized HLO, without constants of more than a few elements.
          generation: The number of the back end.
        """
        try:
            its = self._known.setdefault(function, {})
        except TypeError:
            return False
        if not arguments:
            return False
        text = _REMARKS.sub("", _PLACES.sub("", text))
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        before, known = its.get(arguments, (generation, digest))
        its[arguments] = generation, digest
        return before != generation and known != digest


def described(arguments: Any) -> int:
    """Return a hash of arguments that differs where a function is compiled anew; 0 if they cannot be hashed."""
    leaves, structure = sys.modules["jax"].tree_util.tree_flatten(arguments)
    try:
        return hash((structure, *map(_described, leaves)))
    except TypeError:  # a leaf cannot be hashed, so it is no static argument
        return 0


def _described(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return f"{shape_text(leaf)} {getattr(leaf, 'sharding', None)}"
    return leaf


UNNAMED = b"?"
"""Label of a program without a Python function, such as one that was compiled ahead of time."""


def first_array(tree: Any) -> Any | None:
    """Return one array of a pytree, None if it has none; all arrays of a program lie on the same devices."""
    jax = sys.modules["jax"]
    first = tree
    while type(first) in (tuple, list) and first:
        first = first[0]
    if is_array(first):
        return first
    return next(filter(is_array, jax.tree_util.tree_leaves(tree)), None)


def is_array(value: Any) -> bool:
    """Return whether a value is a JAX array and not a tracer."""
    jax = sys.modules["jax"]
    return isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)


def label(function: Any) -> bytes:
    """Return a label that identifies a function on every process: its name, and its place in the cell."""
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__name__", "").encode() or UNNAMED
    # Marks functions that a cell defines; libraries may send their own helpers in another order.
    own = "ipykernel" in code.co_filename or code.co_filename.startswith("<")
    where = f"{code.co_firstlineno} {len(code.co_code)} {code.co_names}"
    return f"{code.co_name}{'()' if own else ''} {where}".encode()


def title_of(name: bytes) -> str:
    """Return the name of the function of a label, as a person writes it."""
    return name.decode(errors="replace").partition(" ")[0]


def is_of_jax(function: Any) -> bool:
    """Return whether a function is JAX's own, which reads nothing but its arguments; True for None as well."""
    return function is None or str(getattr(function, "__module__", "")).startswith("jax.")


def spans(array: Any) -> bool:
    """Return whether an array lies on devices of several processes."""
    return not array.is_fully_addressable


def wait_for_arrays(arrays: Iterable[Any], then: Callable[[], None]) -> None:
    """Call `then`, on a new thread, once these arrays are computed or have failed.

    The wait is in C++, where no interrupt arrives, so a separate thread waits.
    """
    # Waiting keeps no array alive.
    references = list(map(weakref.ref, arrays))

    def wait() -> None:
        for reference in references:
            array = reference()
            if array is not None and not array.is_deleted():
                # The error of a program is raised where its arrays are used.
                with contextlib.suppress(Exception):
                    array.block_until_ready()
        then()

    threading.Thread(target=wait, name="nbdist-computed", daemon=True).start()


COMPILED = "PjitFunction"
"""Name of the type of functions that `jax.jit` returns (jaxlib 0.10.0 to 0.12.0.1)."""

MOST = 10_000
"""Most objects in containers that are looked at for arrays on several processes."""


def calling(thread: MainThread) -> bool:
    """Return whether the main thread waits in C++ in a call that computes with other processes; False if unknown.

    Only names, attributes and items are followed that can be read without running code of the user's.
    """
    if sys.version_info[:3] < FRAME_OBJECTS_SINCE or not thread.waits_for_a_thread():
        return False
    frame = current_frames().get(threading.main_thread().ident or 0)
    try:
        return frame is not None and calls_over_processes(frame)
    finally:
        del frame


def raising() -> str | None:
    """Return the error, as text, that is being raised on the main thread while a `finally` or `except` runs.

    Runs no code of the user's, such as the error's own `__str__`.
    """
    found: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error = (
        found[1] if isinstance(found, tuple) else found
    )  # until Python 3.12 a triple as from `sys.exc_info`
    if not isinstance(error, Exception):
        return None
    said = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    return f"{type(error).__name__}: {said}".rstrip(": ")


def calls_over_processes(frame: FrameType) -> bool:
    """Return whether a frame is in a call of a compiled function with an array on several processes."""
    call = call_of(frame)
    if call is None or type(value_of(call.func, frame)).__name__ != COMPILED:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    values = (value_of(one.value if isinstance(one, ast.Starred) else one, frame) for one in given)
    return any(is_array(leaf) and spans(leaf) for value in values for leaf in leaves(value))


def call_of(frame: FrameType) -> ast.Call | None:
    """Return the call that a frame is in, parsed from its source; None if it is in none, or has no source."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if positions is None or None in positions:
        return None
    first, last, begin, end = (int(number or 0) for number in positions)
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    if not lines:
        return None
    # Columns are counted in bytes.
    lines[-1] = lines[-1].encode()[:end].decode(errors="ignore")
    lines[0] = lines[0].encode()[begin:].decode(errors="ignore")
    try:
        found = ast.parse(f"({textwrap.dedent(''.join(lines))})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return found if isinstance(found, ast.Call) else None


def value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, an attribute or an item; None if finding it could run code of the user's."""
    match node:
        case ast.Name(id=name):
            for names in (frame.f_locals, frame.f_globals):
                if name in names:
                    return names[name]
        case ast.Attribute(value=holder, attr=name):
            of = value_of(holder, frame)
            return getattr(of, "__dict__", {}).get(name) if of is not None else None
        case ast.Subscript(value=holder, slice=ast.Constant(value=key)):
            of = value_of(holder, frame)
            if type(of) is dict:
                return of.get(key)
            if type(of) in (list, tuple) and isinstance(key, int) and -len(of) <= key < len(of):
                return of[key]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [value_of(part, frame) for part in parts]
    return None


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested plain containers; at most `MOST` objects are looked at."""
    waiting = [value]
    for _ in range(MOST):
        if not waiting:
            return
        one = waiting.pop()
        if type(one) is dict:
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        else:
            yield one


TASKS_FOLDER = Path("/proc/self/task")


NAMED = "tf_XLA"
"""Prefix of the names of the threads in which XLA computes on CPU (jaxlib 0.10.0 to 0.12.0.1)."""


NO_LIMIT = "0x0"


def waiting_threads() -> set[int]:
    """Return XLA's threads that wait with a time limit: in a collective, or until its participants have come.

    Threads without work wait without a limit. The result is empty if the system does not say; only Linux does.
    Source: `/proc/<pid>/task/<tid>/syscall` with the arguments of futex(2), of which the fourth is the limit.
    """
    futex = FUTEX.get(platform.machine())
    found = set()
    for task in _tasks() if futex is not None else ():
        with contextlib.suppress(OSError):
            number, *arguments = (task / "syscall").read_text().split()
            if number == str(futex) and arguments[3] != NO_LIMIT:
                found.add(int(task.name))
    return found


def computed_seconds() -> float:
    """Return the processor time that XLA's threads have used; that of the process if the system does not say.

    Source: the first number of `/proc/<pid>/task/<tid>/schedstat`, in nanoseconds (sched-stats in Linux' docs).
    """
    if not TASKS_FOLDER.is_dir():
        return time.process_time()
    nanoseconds = 0
    for task in _tasks():
        with contextlib.suppress(OSError):
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def _tasks() -> Iterator[Path]:
    """Yield the folders of XLA's threads."""
    if TASKS_FOLDER.is_dir():
        for task in TASKS_FOLDER.iterdir():
            with contextlib.suppress(OSError):
                if (task / "comm").read_text().startswith(NAMED):
                    yield task


COLUMNS = 6
"""Numbers in a row of a `Gathering`."""


class Gathering:
    """A collective that gathers from each device the row of the device's process.

    Args:
      devices: The devices in the order of their rows.
    """

    def __init__(self, devices: list[Any]) -> None:
        import jax
        import numpy
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self._jax = jax
        mesh = Mesh(numpy.array(devices), ("every",))
        self._local = [device for device in devices if device.process_index == jax.process_index()]
        self._shape = (len(devices), COLUMNS)
        self._sharding = NamedSharding(mesh, PartitionSpec("every"))
        whole = NamedSharding(mesh, PartitionSpec())
        # On a new thread, where no mesh or device of the user's is in context.
        with ThreadPoolExecutor(1) as alone:
            self._gather = alone.submit(self._compiled, whole).result()

    def _compiled(self, whole: Any) -> Any:
        rows = self._jax.ShapeDtypeStruct(self._shape, "uint32", sharding=self._sharding)
        with plain_settings():
            return self._jax.jit(lambda rows: rows, out_shardings=whole).lower(rows).compile()

    def rows(self, row: Any) -> Any:
        """Return the rows of all devices as a NumPy array; waits for them."""
        import numpy

        make = self._jax.make_array_from_single_device_arrays
        with plain_settings():
            pieces = [self._jax.device_put(row, device) for device in self._local]
            rows = make(self._shape, self._sharding, pieces)
            return numpy.asarray(self._gather(rows).addressable_data(0))
