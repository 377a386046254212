"""The table of situations: each kind of failure, what runs beside it, in which training, on how many processes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass

SYNCHRONOUS, ASYNCHRONOUS = "synchronous", "asynchronous"
SMALL, LARGE = "small", "large"
TRAININGS = ("jax", "flax", "equinox", "keras")
PROCESSES = (2, 4)

EVERY = int(os.environ.get("NBDIST_EVERY", "1"))
"""One of so many rows is gone through."""


@dataclass(frozen=True)
class Failing:
    """A cell that disturbs.

    `on` are its targets, None for all. `timeout_s` ends it where nothing else would, `interrupt` says that an
    interrupt of the notebook does.
    """

    code: str
    on: str | None = None
    timeout_s: float | None = None
    interrupt: bool = False


@dataclass(frozen=True)
class Situation:
    """One row of the table."""

    kind: str
    waits: str
    size: str
    training: str
    processes: int

    @property
    def failing(self) -> Failing:
        return KINDS[self.kind](self.waits == SYNCHRONOUS, self.size)

    def __str__(self) -> str:
        return "-".join((self.kind, self.waits, self.size, self.training, str(self.processes)))


def use(sync: bool, size: str, function: str = "total") -> str:
    """A collective over all processes, whose number is asked for at once or not at all."""
    return f"q = float({function}({size}))" if sync else f"q = {function}({size})"


def raises_first(sync: bool, size: str) -> Failing:
    return Failing(f"if me == 1:\n    raise ValueError('first')\n{use(sync, size)}")


def raises_in_a_loop(sync: bool, size: str) -> Failing:
    return Failing(
        f"for i in range(12):\n    if me == 1 and i == 7:\n        raise ValueError(i)\n    {use(sync, size)}"
    )


def both_raise(sync: bool, size: str) -> Failing:
    return Failing(
        f"if me == 0:\n    {use(sync, size)}\n    raise ValueError\n"
        f"r = square({size})\nr = square(small)\nraise KeyError('other')"
    )


def some_finish(sync: bool, size: str) -> Failing:
    return Failing(f"{use(sync, size)}\nif me == 1:\n    square({size})\n    raise ValueError")


def nan_on_one(sync: bool, size: str) -> Failing:
    return Failing(
        f"jax.config.update('jax_debug_nans', me == 1)\ntry:\n    p = scaled({size} * 0, 0.0)\n"
        f"    {use(sync, size)}\nfinally:\n    jax.config.update('jax_debug_nans', False)"
    )


def nobody_raises(sync: bool, size: str) -> Failing:
    code = f"if me == 0:\n    {use(sync, size)}"
    return Failing(code)


def on_one_only(sync: bool, size: str) -> Failing:
    return Failing(use(sync, size), on="0")


def ahead(sync: bool, size: str) -> Failing:
    code = f"if me == 1:\n    extra = total({size})\n{use(sync, size)}"
    return Failing(code)


def on_a_part_of_the_mesh(sync: bool, size: str) -> Failing:
    return Failing(
        f"if me < 2:\n    q = half({size}_half)\n"
        f"if me == 1:\n    raise ValueError\n{use(sync, size)}"
    )


def names_alike(sync: bool, size: str) -> Failing:
    body = "(lambda w: w.sum()) if me else (lambda w: (w * w).sum())"
    return Failing(f"alike = jax.jit({body})\n{use(sync, size, 'alike')}")


def in_a_thread(sync: bool, size: str) -> Failing:
    return Failing(
        f"def compute():\n    global q\n    {use(sync, size)}\n"
        "helper = threading.Thread(target=compute, daemon=True)\n"
        "if me == 0:\n    helper.start()\n    helper.join(2)\nelse:\n    raise ValueError"
    )


def first_call_on_one(sync: bool, size: str) -> Failing:
    return Failing(
        f"new = jax.jit(lambda w: (w + 1).sum())\nif me == 1:\n    raise ValueError\n{use(sync, size, 'new')}"
    )


def interrupted(sync: bool, size: str) -> Failing:
    return Failing(
        f"print('in it', flush=True)\nif me == 1:\n    time.sleep(300)\n{use(sync, size)}\ntime.sleep(300)",
        interrupt=True,
    )


def timed_out(sync: bool, size: str) -> Failing:
    return Failing(f"if me == 1:\n    time.sleep(300)\n{use(sync, size)}", timeout_s=2.0)


def asked_by_numpy(sync: bool, size: str) -> Failing:
    asked = "host = np.asarray(total(small))" if sync else f"host = total({size})"
    return Failing(f"if me == 1:\n    raise ValueError\n{asked}\nhost = np.asarray(total({size}))")


def many_pending(sync: bool, size: str) -> Failing:
    return Failing(
        f"if me == 1:\n    raise ValueError\nqs = [total({size}) for _ in range(20)]\n{use(sync, size)}"
    )


KINDS: dict[str, Callable[[bool, str], Failing]] = {
    function.__name__: function
    for function in (
        raises_first,
        raises_in_a_loop,
        both_raise,
        some_finish,
        nan_on_one,
        nobody_raises,
        on_one_only,
        ahead,
        on_a_part_of_the_mesh,
        names_alike,
        in_a_thread,
        first_call_on_one,
        interrupted,
        timed_out,
        asked_by_numpy,
        many_pending,
    )
}


def table() -> list[Situation]:
    """Rows in which every two values of two columns meet."""
    rows = []
    ways = list(itertools.product((SYNCHRONOUS, ASYNCHRONOUS), (SMALL, LARGE)))
    for number, kind in enumerate(KINDS):
        for turn, training in enumerate(TRAININGS):
            waits, size = ways[(turn + number) % 4]
            # Each training meets each way, and each number of processes each of them.
            processes = PROCESSES[(turn // 2 + turn + number // 4) % 2]
            rows.append(Situation(kind, waits, size, training, processes))
    return rows


def rows_on(processes: int) -> list[Situation]:
    """Of the rows that so many processes have, every `NBDIST_EVERY`th."""
    return [row for row in table() if row.processes == processes][::EVERY]


def missing_pairs(rows: list[Situation]) -> set[tuple[object, object]]:
    """The pairs of values that no row has together."""
    columns = (tuple(KINDS), (SYNCHRONOUS, ASYNCHRONOUS), (SMALL, LARGE), TRAININGS, PROCESSES)
    met = {
        pair
        for row in rows
        for pair in itertools.combinations(
            (row.kind, row.waits, row.size, row.training, row.processes), 2
        )
    }
    wanted = {
        pair
        for one, other in itertools.combinations(columns, 2)
        for pair in itertools.product(one, other)
    }
    return wanted - met
