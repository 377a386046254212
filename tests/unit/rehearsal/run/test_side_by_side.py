"""Several rehearsals side by side, with some that stand in for cells and scripts."""

from __future__ import annotations

from typing import ClassVar

import pytest

from nbdist.contract.program import Program
from nbdist.errors import OptionError, RehearsalError
from nbdist.rehearsal.run.asked import read_asked, read_each
from nbdist.rehearsal.run.comparison import Rehearsed
from nbdist.rehearsal.run.side_by_side import side_by_side

MESHES = ("a=16", "a=4,b=4", "a=2,b=8")
PROGRAM = Program(name="jit_step", fits=True)


class Stand:
    """Ends after so many steps, or never, or as an error."""

    live: ClassVar[set[str]] = set()
    most = 0

    def __init__(self, mesh, *, steps=2, error=None):
        self.pod = read_asked("v5e:4x4", mesh)
        self.steps, self.error, self.ends = steps, error, 0

    def start(self):
        Stand.live.add(self.pod.label)
        Stand.most = max(Stand.most, len(Stand.live))

    def advance(self, wait_s):
        self.steps -= 1
        if self.steps <= 0:
            Stand.live.discard(self.pod.label)
            if self.error is not None:
                raise self.error
        return self.steps <= 0

    def state(self):
        return "compiling", "step", 0

    def give_up(self, seconds):
        Stand.live.discard(self.pod.label)
        return f"took {seconds:g} s"

    def end(self):
        self.ends += 1
        Stand.live.discard(self.pod.label)

    def rehearsed(self, failure):
        programs = () if failure else (PROGRAM,)
        return Rehearsed(pod=self.pod, programs=programs, failure=failure)


@pytest.fixture(autouse=True)
def none_live():
    Stand.live.clear()
    Stand.most = 0
    yield
    assert not Stand.live


def compare(ones, *, timeout_s=None, most=2, progress=lambda states: None):
    return side_by_side(ones, timeout_s=timeout_s, most=most, progress=progress)


def test_no_more_run_at_once_than_there_are_processors():
    found = compare([Stand(mesh) for mesh in MESHES])
    assert [one.pod.label for one in found.rehearsed] == list(MESHES)
    assert Stand.most == 2


def test_where_each_stands_is_said_while_it_does():
    seen = []
    compare(
        [Stand(mesh) for mesh in MESHES[:2]],
        most=1,
        progress=lambda states: seen.append([str(one) for one in states]),
    )
    assert seen[0][0].startswith("a=16: compiling step, ")
    assert seen[0][1] == "a=4,b=4: waiting for a processor"


def test_one_that_fails_is_named_and_the_others_are_shown():
    broken = Stand(MESHES[1], error=RehearsalError("no memory"))
    found = compare([Stand(MESHES[0]), broken])
    assert [one.failure for one in found.rehearsed] == ["", "no memory"]
    assert "a=4,b=4 failed: no memory" in found.text()
    assert "jit_step" in found.text()


def test_each_has_the_time_that_is_given():
    found = compare([Stand(MESHES[0]), Stand(MESHES[1], steps=10**9)], timeout_s=0.05)
    assert found.rehearsed[1].failure == "took 0.05 s"


def test_an_interrupt_ends_all_and_says_where_each_stood():
    ones = [Stand(mesh, steps=10**9) for mesh in MESHES]

    def interrupted(states):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as failure:
        compare(ones, progress=interrupted)
    assert [one.ends for one in ones] == [1, 1, 1]
    said = str(failure.value)
    assert "a=16: compiling step, " in said
    assert "a=2,b=8: waiting for a processor" in said


@pytest.mark.parametrize(
    ("meshes", "slices", "said"),
    [
        (["a=16", "a=4,b=3"], 1, "a=4 × b=3 has 12 devices, v5e:4x4 has 16"),
        (["a=32", "a=16"], 2, "mesh a=16 has 16 devices, 2 slices of v5e:4x4 has 32"),
        (["a=16", "a=-1"], 1, "--mesh|mesh='a=16' is given twice"),
    ],
)
def test_meshes_that_cannot_be_compared_are_refused_before_anything_starts(meshes, slices, said):
    with pytest.raises(OptionError, match=said):
        read_each("v5e:4x4", meshes, slices=slices)
