"""Made arrays: arrays on several processes that each process makes from its own values, without any program.

No collective pairs them, so two processes may use different ones together: the batch of step 9 here, that of
step 5 there. They are numbered as a cell makes them. A program that gets one counts as the same on all processes
only if the arrays have the same number and shape.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nbdist.contract.calls.stepping import Origin
from nbdist.engine.frameworks.jax.step.announced import Announced, shape_text
from nbdist.errors import ArrayError

INFERS = "make_array_from_process_local_data"
"""Name of the function that takes the global shape from the rows of this process if it is given none."""

MAKERS = (
    INFERS,
    "make_array_from_callback",
    "make_array_from_single_device_arrays",
    "device_put",
)

MANY = 64
"""Number of noted arrays from which on those that no longer exist are dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class _One:
    """An array that no program has used yet; `number` is 0 if the order of making says nothing."""

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
        self._unused: dict[int, _One] = {}
        self._limit = MANY
        self._numbers: Counter[str] = Counter()
        self._seen: set[str] = set()
        self.announced = Announced()
        self.in_cell = False

    def begin(self, run: int, *, same: bool, code: bool = True) -> None:
        """Begin a cell.

        Args:
          run: The number of the cell's sending, the same on all processes.
          same: Whether arrays made before are known by their paths: their numbers no longer count.
          code: Whether code of the user's runs; none does in a round of copies.
        """
        if same and self._unused:
            self._unused = {key: replace(one, number=0) for key, one in self._unused.items()}
        self.in_cell = code
        if run == self.run:
            return
        self.run = run
        for name in [name for name in self._numbers if not name.startswith("thread ")]:
            del self._numbers[name]
        self.announced.begin()

    def restart(self) -> None:
        """Begin with a new back end; the arrays of the last one are gone."""
        self.in_cell = False
        self._unused.clear()
        self._seen.clear()

    def note(self, array: Any, group: str, place: tuple[int, int]) -> Origin:
        """Number an array that was made just now; return its origin.

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
            # A thread makes arrays at any time, such as batches ahead of a training: which programs are sent
            # before and after is chance, and with several threads the order is, too.
            name = f"thread {threading.current_thread().name}"
            self._numbers[name] += 1
            number, origin = 0, (place[0], 0, f"{name} made {self._numbers[name]} {group} {shape}")
        self._unused[id(array)] = _One(weakref.ref(array), self.run, number, shape)
        if len(self._unused) > self._limit:
            self._unused = {k: one for k, one in self._unused.items() if one.array() is not None}
            self._limit = max(MANY, 2 * len(self._unused))
        return origin

    def used(self, arguments: Any) -> str:
        """Return which of these arrays a program gets for the first time, as text; empty for none.

        Returns:
          A text such as `RUN: 10 float32[16]`. Numbers and shapes are each sorted, so that it makes no difference
          which argument is which of several arrays.
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
        """Compare a shape that was taken from this process's rows with those of the other processes.

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
