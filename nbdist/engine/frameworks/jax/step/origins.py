"""Origins of arrays on several processes, by which all processes can identify an array.

An array has no name that all processes know. By comparing origins, two processes see whether the arrays that they
have under one name are parts of one array, or of two that only look alike (`Origins`).

Some arrays are computed by no program: each process makes them from its own values (`Made`). No collective pairs
such arrays, so two processes may use different ones together: the batch of step 9 here, the batch of step 5 there.
They are numbered as a cell makes them. A program that gets one counts as the same on all processes only if the
arrays have the same number and shape. A shape that a process takes from its own rows is compared in the key-value
store of JAX's coordinator (`Announced`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbdist.contract.calls.stepping import Origin
from nbdist.engine.frameworks.jax.private import base_array, coordinator_client
from nbdist.errors import ArrayError

OF_A_THREAD = "thread "
"""Beginning of the last entry of the origin of an array that a thread other than the main one has made."""

UNKNOWN: Origin = (0, 0, "")
"""Origin of an array that no program computed, and no path led to."""

_Table = dict[int, tuple[weakref.ref[Any], Origin]]
"""Arrays and their origins, by the `id` of the array."""

FRESH = 64
"""Number of programs whose outputs are kept as they come, before entries of ended outputs are dropped."""

MANY_ORIGINS = 10_000
"""Number of arrays at which entries of ended arrays are first dropped; then again whenever the number has
doubled."""


class Origins:
    """The known origins of living arrays; no array is kept alive.

    A training step gives a thousand arrays an origin, and the next step drops them all. So a program adds only one
    list of weak references, and nothing is called when an array ends.
    """

    def __init__(self) -> None:
        self._known: _Table = {}
        self._made: _Table = {}
        self._made_limit = MANY_ORIGINS
        self._fresh: list[tuple[int, int, str, list[weakref.ref[Any] | None]]] = []
        self._limit = MANY_ORIGINS

    def computed(
        self, outputs: Sequence[Any], generation: int, serial: int, within: str = ""
    ) -> None:
        """Note the program that has computed these arrays; the first origin of an array stays.

        Args:
          outputs: The arrays.
          generation: The number of the back end.
          serial: The serial of the newest program on all devices.
          within: Identifies a program that ran on some devices alone.
        """
        self._fresh.append((generation, serial, within, list(map(weakref.ref, outputs))))
        if len(self._fresh) >= FRESH:
            alive = [(*one[:3], [_alive(reference) for reference in one[3]]) for one in self._fresh]
            self._fresh = [one for one in alive if any(one[3])]
            if len(self._fresh) >= FRESH // 2:
                self._settle()

    def made(self, array: Any, origin: Origin) -> None:
        """Note the origin of an array made of values on the host; a path that is noted later takes precedence."""
        self._made[id(array)] = weakref.ref(array), origin
        if len(self._made) > self._made_limit:
            self._made = _living(self._made)
            self._made_limit = max(MANY_ORIGINS, 2 * len(self._made))

    def note_paths(
        self, new: Collection[Any], paths: Mapping[str, Any], *, generation: int, run: int
    ) -> None:
        """Give arrays the path that leads to them as their origin, `UNKNOWN` where none does.

        Args:
          new: All living arrays on several processes that have no final origin yet.
          paths: Arrays by path; a path may lead to a typed key in place of the new array in it.
          generation: The number of the back end.
          run: The number of this sending of the cell.
        """
        unknown = {id(array) for array in new}
        for path, array in paths.items():
            held = base_array(array)
            if id(held) in unknown:
                by_path = generation, 0, f"{run} {path} {shape_text(held)}"
                self.note(held, self.of(array) if array in self else by_path)
        for array in new:
            self.note(array, UNKNOWN)
        self._made.clear()  # every living array has another origin by now

    def note(self, array: Any, origin: Origin) -> None:
        """Note the origin of an array; its first origin stays."""
        if array not in self:
            self._known[id(array)] = (weakref.ref(array), origin)

    def move(self, old: Any, new: Any) -> None:
        """Give `new` the origin of `old`, which it replaces."""
        origin = self.of(old)
        if origin != UNKNOWN or old in self:
            self.note(new, origin)

    def forget(self, generation: int, after: int) -> None:
        """Forget the origins of arrays computed in this generation by programs with a serial above `after`."""
        self._settle()
        for table in (self._known, self._made):
            for key, (_, origin) in list(table.items()):
                if origin[0] == generation and origin[1] > after:
                    del table[key]

    def of(self, array: Any) -> Origin:
        """Return the origin of an array; for a typed PRNG key without one, the origin of the array it holds."""
        self._settle()
        for table in (self._known, self._made):
            for one in (array, base_array(array)):
                if (origin := _found(table, one)) is not None:
                    return origin
        return UNKNOWN

    def __contains__(self, array: Any) -> bool:
        """Return whether an array has its final origin: a program has computed it, or a path to it was noted."""
        self._settle()
        return _found(self._known, array) is not None

    def __iter__(self) -> Iterator[tuple[Any, Origin]]:
        """Yield living arrays with their origins, except arrays that other threads made from host values."""
        self._settle()
        made = [one for one in self._made.values() if not one[1][2].startswith(OF_A_THREAD)]
        for reference, origin in [*self._known.values(), *made]:
            array = reference()
            if array is not None:
                yield array, origin

    def _settle(self) -> None:
        """Give an origin to the outputs noted since the last call."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        for generation, serial, within, references in fresh:
            for number, reference in enumerate(references):
                array = reference() if reference is not None else None
                if (
                    reference is not None
                    and _found(self._known, array) is None
                    and array is not None
                ):
                    self._known[id(array)] = reference, (generation, serial, f"{within}{number}")
        if len(self._known) > self._limit:
            self._known = _living(self._known)
            self._limit = max(MANY_ORIGINS, 2 * len(self._known))


def _found(table: _Table, array: Any) -> Origin | None:
    reference, origin = table.get(id(array), (None, None))
    # Another array may have had the same id before.
    return origin if reference is not None and reference() is array else None


def _living(table: _Table) -> _Table:
    return {key: one for key, one in table.items() if one[0]() is not None}


def _alive(reference: weakref.ref[Any] | None) -> weakref.ref[Any] | None:
    return reference if reference is not None and reference() is not None else None


FOLDER = "nbdist/announced"
"""Folder in the store: below it one folder for each thing that is compared, with a text for each process."""

NAMED = 3
"""Most shapes that an error names."""


class Announced:
    """Announcements of array shapes, compared before a program computes with the arrays.

    Each process writes its shapes, and then reads what is there. No process waits for another. Of two processes
    that differ, at least the later one sees both announcements and raises; the first may wait in its collective
    until the cell ends. Announcements stay until the next cell begins.
    """

    def __init__(self) -> None:
        self._keys: list[str] = []

    def begin(self) -> None:
        """Delete the announcements of the last cell."""
        keys, self._keys = self._keys, []
        client: Any = coordinator_client() if keys else None
        for key in keys if hasattr(client, "key_value_delete") else ():
            with contextlib.suppress(RuntimeError):  # the coordinator is gone, and the key with it
                client.key_value_delete(key)

    def others(self, what: str, name: str, shapes: Sequence[str]) -> tuple[str, int, str] | None:
        """Announce the shapes of a thing, and look for a process that has announced other shapes of it.

        Does nothing on other threads than the main thread: only on the main thread is the order the same on all
        processes.

        Args:
          what: The place of the thing in the order of its kind, such as the number of a program; the same on all
            processes.
          name: The name of the thing; only announcements of equal names are compared.
          shapes: Texts from `shape_text`.

        Returns:
          The shapes here that differ, the other process, and its shapes; None if none is known to differ.
        """
        client = coordinator_client()
        if client is None or threading.current_thread() is not threading.main_thread():
            return None
        me = sys.modules["jax"].process_index()
        folder = f"{FOLDER}/{what}/"
        mine = json.dumps([name, list(shapes)])
        with contextlib.suppress(RuntimeError):  # the coordinator is gone
            client.key_value_set(f"{folder}{me}", mine)
            self._keys.append(f"{folder}{me}")
            for key, text in client.key_value_dir_get(folder):
                other, theirs = json.loads(text)
                if other == name and theirs != list(shapes):
                    here, there = named(shapes, theirs), named(theirs, shapes)
                    return here, int(key.rpartition("/")[2]), there
        return None


def named(shapes: Iterable[str], others: Sequence[str]) -> str:
    """Return, as text, the first of these shapes that differ from the others at the same place."""
    found = [s for i, s in enumerate(shapes) if i >= len(others) or others[i] != s]
    return ", ".join(found[:NAMED]) or "fewer arrays"


def shape_text(array: Any) -> str:
    """Return dtype and shape of an array, such as `float32[16,4]`."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


INFERS = "make_array_from_process_local_data"
"""Name of the function that takes the global shape from the rows of this process if it is given none."""

MAKERS = (
    INFERS,
    "make_array_from_callback",
    "make_array_from_single_device_arrays",
    "device_put",
)

MANY = 64
"""Number of noted arrays at which entries of ended arrays are first dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class _UnusedArray:
    """An array that no program has used yet; `number` is 0 if it does not identify the array."""

    array: weakref.ref[Any]
    run: int
    number: int
    shape: str


class Made:
    """Numbers of the arrays that a cell makes; no array is kept alive.

    Attributes:
      run: The number of the newest cell.
      in_cell: Whether a cell runs; between cells nbdist makes arrays, when it moves values and repairs.
      announced: Compares shapes with other processes.
    """

    def __init__(self) -> None:
        self.run = 0
        self._unused: dict[int, _UnusedArray] = {}
        self._limit = MANY
        self._numbers: Counter[str] = Counter()
        self._seen: set[str] = set()
        self.announced = Announced()
        self.in_cell = False

    def begin(self, run: int, *, same: bool, code: bool = True) -> None:
        """Begin a cell.

        Args:
          run: The number of the cell's sending, the same on all processes.
          same: Whether arrays made before this cell are identified by their paths, so that their numbers no longer
            count.
          code: Whether code of the user's runs; none does in a round of copies.
        """
        if same and self._unused:
            self._unused = {key: replace(one, number=0) for key, one in self._unused.items()}
        self.in_cell = code
        if run == self.run:
            return
        self.run = run
        for name in [name for name in self._numbers if not name.startswith(OF_A_THREAD)]:
            del self._numbers[name]
        self.announced.begin()

    def restart(self) -> None:
        """Begin with a new back end; the arrays of the last one are gone."""
        self.in_cell = False
        self._unused.clear()
        self._seen.clear()

    def note(self, array: Any, group: str, place: tuple[int, int]) -> Origin:
        """Give a number to an array that was made just now; return its origin.

        Args:
          array: An array on devices of several processes.
          group: The name of its devices.
          place: The numbers of the back end and of the newest program.
        """
        shape = shape_text(array)
        if threading.current_thread() is threading.main_thread():
            self._numbers[group] += 1
            number = self._numbers[group]
            origin = (*place, f"{self.run} made {number} {group} {shape}")
        else:
            # Other threads make arrays at any time, such as batches ahead of a training. Which programs are sent
            # before and after is chance, and with several threads so is the order.
            name = f"{OF_A_THREAD}{threading.current_thread().name}"
            self._numbers[name] += 1
            number, origin = 0, (place[0], 0, f"{name} made {self._numbers[name]} {group} {shape}")
        self._unused[id(array)] = _UnusedArray(weakref.ref(array), self.run, number, shape)
        if len(self._unused) > self._limit:
            self._unused = {k: one for k, one in self._unused.items() if one.array() is not None}
            self._limit = max(MANY, 2 * len(self._unused))
        return origin

    def used(self, arguments: Any) -> str:
        """Return which of these arrays a program gets for the first time, as text; empty for none.

        Returns:
          A text such as `RUN: 10 float32[16]`. Numbers and shapes are each sorted, so the order of the arguments
          does not matter.
        """
        if not self._unused:
            return ""
        leaves = sys.modules["jax"].tree_util.tree_leaves(arguments)
        found = [
            one
            for key in {id(leaf) for leaf in leaves} & self._unused.keys()
            if (one := self._unused.pop(key)).array() is not None
        ]
        if not found:
            return ""
        numbers = [str(n) for n in sorted(one.number for one in found if one.number)]
        run = max(one.run for one in found) if numbers else 0
        return f"{run}: {' '.join([*numbers, *sorted(one.shape for one in found)])}"

    def compare(self, array: Any) -> None:
        """Compare an array's shape, taken from this process's rows, with the shapes on the other processes.

        This takes a millisecond: only the first such array of a cell is compared, and each shape that is new here.

        Raises:
          ArrayError: Another process has another shape.
        """
        __tracebackhide__ = True
        shape = shape_text(array)
        if threading.current_thread() is not threading.main_thread():
            return
        self._numbers[INFERS] += 1
        if shape in self._seen and self._numbers[INFERS] > 1:
            return
        self._seen.add(shape)
        found = self.announced.others(f"{self.run}/{self._numbers[INFERS]}", INFERS, [shape])
        if found is not None:
            _, other, theirs = found
            raise ArrayError(
                f"{INFERS} made {shape} of the rows of this process, and {theirs} of those of process {other}: it "
                "is one array only where each process gives as many rows. Give each the same number, or the "
                "shape as global_shape."
            )


def hook_makers(made: Callable[[Any, bool], None]) -> Callable[[], None]:
    """Install hooks that call `made` with each result of `MAKERS`, and whether its shape came from this process.

    The hooks replace public functions of JAX, which has no event for an array that no program computes.

    Returns:
      A function that removes the hooks.
    """
    jax = sys.modules["jax"]
    before = {name: getattr(jax, name) for name in MAKERS}

    def hooked(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def make(*arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            output = original(*arguments, **options)
            stated = options.get("global_shape", arguments[2] if len(arguments) > 2 else None)
            made(output, name == INFERS and stated is None)
            return output

        make.__module__ = "jax"  # a pickle of the function refers to it there
        return make

    for name, original in before.items():
        setattr(jax, name, hooked(name, original))

    def unhook() -> None:
        for name, original in before.items():
            setattr(jax, name, original)

    return unhook
