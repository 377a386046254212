"""Dispatched programs: those that this process has sent to devices of several processes, in order.

XLA pairs the collectives of processes by their order alone. Two processes are in step if, since they were last in
step, both have sent the same programs in the same order.
"""

from __future__ import annotations

import functools
import sys
import threading
import warnings
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from nbdist.engine.cell.stacks import outside
from nbdist.engine.frameworks.jax.private import EXECUTE, POST_HOOK_STATE, compiled_function
from nbdist.engine.frameworks.jax.step.origins import Made, Origins, hook_makers, shape_text
from nbdist.engine.frameworks.jax.step.programs import (
    ProgramCollectives,
    Recompiled,
    described,
    first_array,
    is_array,
    is_of_jax,
    label,
    spans,
    title_of,
)
from nbdist.errors import ArrayError

LABELS = 512
"""Number of the newest programs whose names are kept."""

TRAIL = 4096
"""Number of the newest programs whose checksums are kept."""


@dataclass(frozen=True, slots=True)
class ProgramCount:
    """Counts of the programs sent since the processes were last in step.

    `programs` counts programs on all devices of the session. `names` is a checksum over their names in order, and
    `kinds` one over the collectives of the programs that ran for the first time. `parts` counts programs on
    devices of several processes, but not on all devices; other processes may have sent none of these.
    """

    programs: int = 0
    names: int = 0
    parts: int = 0
    kinds: int = 0

    @property
    def any(self) -> bool:
        """Whether devices of another process were used."""
        return bool(self.programs or self.parts)


class Dispatched:
    """Counts of programs on devices of several processes; written by the threads that send them.

    Attributes:
      count: The counts since the processes were last in step.
      serial: The number of programs on all devices since the back end came up; equal on processes that are in
        step.
      trail: The newest programs, each as a checksum over all names and collectives up to it; the last is that of
        `serial`.
      generation: The number of this back end; the same everywhere.
      origins: Which program computed each array.
      ignored: `threading.get_ident()` of threads whose programs are not counted.
      labels: The names of the newest programs since the processes were last in step.
      kinds: The collectives of these programs; None for one that did not run for the first time.
      given: The arrays made by no program that these programs were the first to get, as texts of `Made.used`.
      made: The numbers of the arrays that no program has computed.
      parts: By group of devices, the number of programs that the cell has sent to that group alone since the
        processes were last in step, and a checksum over their names in order.
      devices: The number of devices of the session.
    """

    def __init__(self) -> None:
        self.count = ProgramCount()
        self.serial = 0
        self.generation = 0
        self.origins = Origins()
        self.ignored: set[int] = set()
        self.labels: deque[bytes] = deque(maxlen=LABELS)
        self.kinds: deque[str | None] = deque(maxlen=LABELS)
        self.given: deque[str] = deque(maxlen=LABELS)
        self.made = Made()
        self.parts: dict[str, tuple[int, int]] = {}
        self._numbers: Counter[str] = Counter()
        self._collectives = ProgramCollectives()
        self._recompiled = Recompiled()
        self.devices = 0
        self.trail: deque[int] = deque(maxlen=TRAIL)
        self._unhook: Callable[[], None] | None = None

    @property
    def hooked(self) -> bool:
        """Whether programs are seen: True for every program, or False if JAX cannot be hooked and none is seen."""
        return self._unhook is not None

    @property
    def place(self) -> tuple[int, int]:
        """The number of the back end, and the number of programs on all devices that were sent to it."""
        return self.generation, self.serial

    def hook(self) -> bool:
        """Hook into JAX so that every program is seen from now on; return False if JAX cannot be hooked."""
        if self._unhook is None:
            unhook = hook_programs(self._fast, self._slow)
            if unhook is not None:
                unmake = hook_makers(self._make)
                self._unhook = lambda: (unmake(), unhook())[-1]
        return self.hooked

    def begin_cell(self, run: int, *, same: bool, code: bool = True) -> None:
        """Begin a cell, whose arrays and programs on some devices are numbered from 1; see `Made.begin`."""
        if run != self.made.run:
            self._numbers.clear()
            self.parts.clear()
        self.made.begin(run, same=same, code=code)

    def restart(self, generation: int | None = None) -> None:
        """Start counting for a new back end, to which nothing was sent yet.

        Args:
          generation: The number of the back end, the same on all processes and never used before; default: one
            more than before.
        """
        self.serial = 0
        self.generation = self.generation + 1 if generation is None else generation
        self.trail.clear()
        self.made.restart()
        self.in_step()

    def renumber(self) -> None:
        """Begin to count anew, on all processes, after a proof that has passed with different counts.

        The origins of arrays computed since the processes were in step differ between them, and are forgotten.
        """
        self.origins.forget(self.generation, self.serial - self.count.programs)
        self.generation += 1
        self.serial = 0
        self.trail.clear()

    def in_step(self) -> None:
        """Note that the processes are in step: set all counts since then to zero."""
        self.count = ProgramCount()
        self.labels.clear()
        self.kinds.clear()
        self.given.clear()
        self.parts.clear()

    def _fast(self, function: Any, arguments: Any, options: Any, output: Any) -> None:
        """Count a program; JAX's C++ calls this after each call of a compiled function."""
        if threading.get_ident() not in self.ignored:
            leaf = first_array(output)
            # Without an output the arguments show the devices: they lie on the same ones.
            if leaf is None:
                leaf = first_array(arguments)
            if leaf is not None and spans(leaf):
                name = label(getattr(function, "__wrapped__", None))
                self._add(name, None, leaf, (arguments, options))(output)

    def _slow(self, program: Any, arguments: Iterable[Any]) -> Callable[[Any], None] | None:
        """Count a program that is new to JAX's C++, before it runs; return a function that takes the output."""
        if threading.get_ident() in self.ignored:
            return None
        given = list(arguments)
        leaf = first_array(given)
        local = leaf is not None and not spans(leaf)
        function, called_with = compiled_function()
        name = label(function)
        if program not in self._collectives and not (local and is_of_jax(function)):
            if leaf is not None and not local and not self._group(leaf):
                self._compare(name, given)
            self._read(program, name, function, called_with)
        if local:
            return None
        kind = self._collectives.of(program)
        if leaf is not None:
            return self._add(name, kind, leaf, given)

        def late(output: Any) -> None:
            leaf = first_array(output)
            if leaf is not None and spans(leaf):
                self._add(name, kind, leaf, given)(output)

        return late  # without arrays as arguments, only the output shows the devices

    def _read(self, program: Any, name: bytes, function: Any, called_with: Any) -> None:
        """Read a program before its first run; warn if the function had another program before a repair."""
        text = self._collectives.read(program, lambda: program.xla_executable.hlo_modules())
        if text is None or function is None:
            return
        if self._recompiled.note(function, described(called_with), text, self.generation):
            warnings.warn(
                f"{title_of(name)} was compiled again after a repair, and its program is not the one before: a "
                "value that it reads other than as an argument was set in between. It computes with the new "
                "value.",
                stacklevel=outside("nbdist", "jax"),
            )

    def _compare(self, name: bytes, arguments: Iterable[Any]) -> None:
        """Compare a program's arguments, before it runs for the first time, with those on other processes.

        Raises:
          ArrayError: Another process has arrays of other shapes.
        """
        shapes = [shape_text(one) for one in arguments if is_array(one)]
        title = title_of(name)
        where = f"{self.made.run}/{self.generation}/{self.serial}"
        found = self.made.announced.others(where, title, shapes)
        if found is not None:
            here, other, there = found
            what = title if title.endswith("()") else "a program"
            raise ArrayError(
                f"{what} is to compute with {here} on this process, and with {there} on process {other}. Arrays "
                "on several processes must have the same shape on each."
            )

    def _add(
        self, name: bytes, kind: str | None, leaf: Any, arguments: Any
    ) -> Callable[[Any], None]:
        """Count a program; return a function that takes its output."""
        before = self.count
        group = self._group(leaf)
        given = self.made.used(arguments)
        if group:
            self.count = replace(before, parts=before.parts + 1)
            # Other processes may send no programs to these devices, which are therefore numbered separately.
            self._numbers[group] += 1
            count, checksum = self.parts.get(group, (0, 0))
            self.parts[group] = count + 1, zlib.crc32(name + given.encode(), checksum)
            return functools.partial(self._born, f"{self.made.run} {group} {self._numbers[group]} ")
        names = zlib.crc32(given.encode(), zlib.crc32(name, before.names))
        kinds = zlib.crc32(b"" if kind is None else kind.encode() + b";", before.kinds)
        self.labels.append(name)
        self.kinds.append(kind)
        self.given.append(given)
        self.serial += 1
        self.trail.append(zlib.crc32(kinds.to_bytes(4), names))
        self.count = replace(before, programs=before.programs + 1, names=names, kinds=kinds)
        return functools.partial(self._born, "")

    def _born(self, within: str, output: Any) -> None:
        jax = sys.modules["jax"]
        leaves = jax.tree_util.tree_leaves(output)
        self.origins.computed(leaves, self.generation, self.serial, within)

    def _group(self, array: Any) -> str:
        """Return the name of an array's devices, `ID,ID/PROCESS,PROCESS`; empty for all devices of the session."""
        sharding = array.sharding
        if sharding.num_devices == self.devices:
            return ""
        ids = sorted(device.id for device in sharding.device_set)
        processes = sorted({device.process_index for device in sharding.device_set})
        return f"{','.join(map(str, ids))}/{','.join(map(str, processes))}"

    def _make(self, output: Any, inferred: bool) -> None:
        """Number the arrays of an output; called after each of `MAKERS`."""
        __tracebackhide__ = True
        if threading.get_ident() in self.ignored or not self.made.in_cell:
            return
        jax = sys.modules["jax"]
        for leaf in jax.tree_util.tree_leaves(output):
            if is_array(leaf) and spans(leaf) and leaf not in self.origins:
                self.origins.made(leaf, self.made.note(leaf, self._group(leaf), self.place))
                if inferred:
                    self.made.compare(leaf)


def hook_programs(
    fast: Callable[[Any, Any, Any, Any], None],
    slow: Callable[[Any, Any], Callable[[Any], None] | None],
) -> Callable[[], None] | None:
    """Install hooks that call `fast` after each call of a compiled function in C++, `slow` before other programs.

    Returns:
      A function that removes both hooks; None if they cannot be placed, and then nothing is changed.
    """
    state, execute = POST_HOOK_STATE.get(), EXECUTE.get()
    if not all(hasattr(state, name) for name in _Hooks.NEEDED) or execute is None:
        return None
    original = execute.__call__

    @functools.wraps(original)
    def call(self: Any, *arguments: Any) -> Any:
        __tracebackhide__ = True
        then = slow(self, arguments)
        output = original(self, *arguments)
        if then is not None:
            then(output)
        return output

    both = _Hooks(state, fast)
    both.place()
    POST_HOOK_STATE.set(both)
    execute.__call__ = call

    def unhook() -> None:
        execute.__call__ = original
        POST_HOOK_STATE.set(state)
        both.leave()

    return unhook


class _Hooks:
    """Replacement for JAX's only hook, so that `jax_debug_nans` and the count do not displace each other."""

    NEEDED = ("set_global", "set_local", "get_global", "get_local")

    def __init__(self, state: Any, ours: Callable[..., None]) -> None:
        self._state = state
        self._ours = ours
        self._theirs: Callable[..., None] | None = None
        with ThreadPoolExecutor(1) as fresh:
            self._unset = fresh.submit(state.get_local).result()

    def place(self) -> None:
        """Replace the hooks that are set, globally and on this thread, and go on calling them."""
        self.set_global(self._state.get_global())
        local = self._state.get_local()
        if local is not self._unset:
            self.set_local(local)

    def leave(self) -> None:
        """Restore the hooks that would be set without this object."""
        self._state.set_global(self._theirs)
        if callable(self._state.get_local()):
            self._state.set_local(self._theirs)

    def set_global(self, theirs: Callable[..., None] | None) -> None:
        self._theirs = theirs
        self._state.set_global(self._both(theirs))

    def set_local(self, theirs: Callable[..., None] | None) -> None:
        # Whenever `jax.debug_nans` begins or ends on a thread, JAX sets the thread's hook to None, which would
        # hide the global hook. The global hook must stay in force: it finds out itself whether there is something
        # to check.
        self._state.set_local(self._unset if theirs is None else self._both(theirs))

    def _both(self, theirs: Callable[..., None] | None) -> Callable[..., None]:
        if theirs is None:
            return self._ours

        def both(*call: Any) -> None:
            self._ours(*call)
            theirs(*call)

        return both


def arrays_under_way(dispatched: Dispatched, common: int, *, since: int = 0) -> list[Any]:
    """Return the outputs of a range of programs that are not computed yet.

    Args:
      dispatched: The programs.
      common: The serial of the last program in the range.
      since: The serial of the last program before the range.
    """
    return [array for array, serial in _under_way(dispatched) if since < serial <= common]


def serials_under_way(dispatched: Dispatched) -> set[int]:
    """Return the serials of the programs with an output that is not computed yet."""
    return {serial for _, serial in _under_way(dispatched)}


def _under_way(dispatched: Dispatched) -> Iterator[tuple[Any, int]]:
    for array, (generation, serial, _) in dispatched.origins:
        if (
            generation == dispatched.generation
            and serial > 0
            and not array.is_deleted()  # jax 0.10.0 ends the process if a deleted array is asked anything else
            and not _is_ready(array)
        ):
            yield array, serial


def _is_ready(array: Any) -> bool:
    """Return whether an array has its values; True for typed PRNG keys, which do not tell."""
    asked = getattr(array, "is_ready", None)
    return asked is None or bool(asked())
