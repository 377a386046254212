"""One session with four trainings in it, and what they are without any disturbance."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import nbdist
from nbdist import Session
from nbdist.errors import CellTimeout, NbdistError, Notice
from nbdist.view.output import CellOutput
from tests.in_step.trainings import COMMON, TRAIN, TRAININGS

LIMIT_SECONDS = 120.0
"""No cell of these tests may take longer, on whichever machine: it hangs."""

REPAIRED = r"was repaired in|(was|were) replaced in"
Pieces = dict[str, list[tuple[str, bytes]]]


class Shown:
    """Draws nothing; what a cell has shown so far, as text."""

    def __init__(self) -> None:
        self._output: CellOutput | None = None

    def refresh(self, output: CellOutput, *, final: bool = False) -> None:
        self._output = output

    @property
    def text(self) -> str:
        blocks = self._output.blocks() if self._output is not None else ()
        return "\n".join(
            str(block.text) if hasattr(block, "text") else "\n".join(getattr(block, "lines", ()))
            for block in blocks
        )


@dataclass(frozen=True)
class Said:
    """How a cell ended: what it raised, None for nothing, all that was shown, and what was done about it."""

    error: BaseException | None
    text: str
    notice: Notice | None = None

    @property
    def shown(self) -> str:
        """The error as a person sees it, which must be there."""
        assert self.error is not None, self.text
        return str(getattr(self.error, "shown", self.error))

    @property
    def repaired(self) -> bool:
        return self.notice is not None and re.search(REPAIRED, str(self.notice)) is not None

    @property
    def lost(self) -> set[str]:
        """The names said to be lost."""
        return set() if self.notice is None else set(self.notice.lost)


@dataclass
class World:
    """The session, and the values of each training after each number of steps when nothing is disturbed.

    `calm` has, for each training, by number of steps, the losses so far and the pieces by process.
    """

    session: Session
    trainings: Sequence[str]
    calm: dict[str, list[tuple[list[str], dict[int, Pieces]]]] = field(default_factory=dict)

    def prepare(self, steps: int) -> None:
        """Runs each training undisturbed, notes all values after each step, and begins again."""
        self.run("\n".join([COMMON, *(TRAININGS[name] for name in self.trainings), TRAIN]))
        for name in self.trainings:
            self.run(f"begin({name!r})")
            kept = self.calm[name] = [([], self.pieces(name))]
            for _ in range(steps):
                kept.append((kept[-1][0] + self.train(name, 1), self.pieces(name)))
        self.again()
        self.still = self.pieces()

    def again(self) -> None:
        """Every training from its seed."""
        self.run("\n".join(f"begin({name!r})" for name in self.trainings))

    def run(self, code: str, **options: Any) -> Said:
        """Runs a cell that must not fail."""
        said = self.attempt(code, **options)
        if said.error is not None:
            raise said.error
        return said

    def attempt(self, code: str, *, timeout_s: float = LIMIT_SECONDS, **options: Any) -> Said:
        """Runs a cell that may fail; one that takes too long has hung."""
        shown, before = Shown(), self.session.why()
        error: BaseException | None = None
        try:
            self.session.run(code, timeout_s=timeout_s, renderer=shown, **options)
        except (NbdistError, KeyboardInterrupt) as caught:
            error = caught
        if isinstance(error, CellTimeout) and timeout_s == LIMIT_SECONDS:
            raise error
        notice = self.session.why()
        return Said(error, shown.text, None if notice is before else notice)

    def train(self, name: str, steps: int) -> list[str]:
        """Trains on; the losses, digit for digit, the same on all processes."""
        self.run(f"losses = train({name!r}, {steps})")
        first, *others = self.values("losses").values()
        assert all(other == first for other in others), "processes have different losses"
        return list(first)

    def all_have(self, expression: str, value: Any) -> None:
        """Compare what every process has for an expression that computes nothing."""
        found = self.values(expression)
        assert list(found.values()) == [value] * len(found), found

    def values(self, expression: str) -> dict[int, Any]:
        """What each process has for an expression that computes nothing."""
        return {p: self.session.pull(expression, on=str(p)) for p in self.session.hosts}

    def pieces(self, name: str | None = None) -> dict[int, Pieces]:
        """Every piece of every array of one training, or of all there is, by process."""
        expression = "everything()" if name is None else f"pieces(leaves_{name}())"
        return self.values(expression)

    def unchanged(self) -> None:
        """All values of all trainings are those of an undisturbed run after as many steps."""
        steps = self.values("done")
        assert all(found == steps[0] for found in steps.values()), steps
        for name in self.trainings:
            compare(self.pieces(name), self.calm[name][steps[0][name]][1])
        now = self.pieces()
        for process_id, before in self.still.items():
            for key in ("['small']", "['large']", "['x']", "['y']"):
                assert now[process_id][key] == before[key], f"{key} on process {process_id}"

    def goes_on(self, name: str, steps: int = 2) -> None:
        """Trains on, exactly as undisturbed, and a collective over all brings the right number."""
        before = self.values("done")[0][name]
        losses = self.train(name, steps)
        expected, pieces = self.calm[name][before + steps]
        assert losses == expected[before:]
        compare(self.pieces(name), pieces)
        self.run("numbers = float(total(small)), float(square(small))")
        self.all_have("numbers", (2016.0, 85344.0))
        assert not self.session.out_of_step

    def trains_again(self) -> None:
        """The training of JAX goes on, or begins again where too few steps are left for the next test."""
        self.in_use("jax", 6)
        self.goes_on("jax", 1)

    def in_use(self, name: str, steps: int) -> None:
        """Begins a training again when its calm run has too few steps left."""
        if self.values("done")[0][name] + steps >= len(self.calm[name]):
            self.run(f"begin({name!r})")


def compare(found: dict[int, Pieces], expected: dict[int, Pieces]) -> None:
    """Says which pieces differ."""
    assert found.keys() == expected.keys()
    for process_id, pieces in expected.items():
        assert found[process_id].keys() == pieces.keys()
        wrong = [path for path, piece in pieces.items() if found[process_id][path] != piece]
        assert not wrong, f"process {process_id}: other values in {wrong}"


@contextlib.contextmanager
def world(processes: int | None, *trainings: str, steps: int = 12, **start: Any) -> Iterator[World]:
    """A session of so many processes, two devices each, ready for situations; `start` goes to `nbdist.start`."""
    options = {
        "devices_per_process": 2,
        "platform": "cpu",
        "framework": "keras" if "keras" in trainings else "jax",
        "grace_s": 0.3,
    }
    with nbdist.start(processes, **{**options, **start}) as session:
        found = World(session, trainings)
        found.prepare(steps)
        yield found
