"""Several rehearsals side by side, with some that stand in for cells and scripts; and how their processes end."""

from __future__ import annotations

import signal
from typing import ClassVar

import pytest

from nbdist.contract.program import Compiled, Compiling, Program, to_line
from nbdist.errors import RehearsalError
from nbdist.rehearsal.libtpu import how_it_ended
from nbdist.rehearsal.mesh import read_each
from nbdist.rehearsal.runs import Run, SideBySideDisplay, side_by_side

MESHES = ("a=16", "a=4,b=4", "a=2,b=8")
PROGRAM = Program(name="jit_step", fits=True)


class Stand(Run):
    """Ends after so many steps, or never, or as an error."""

    live: ClassVar[set[str]] = set()
    most = 0

    def __init__(self, mesh, *, steps=2, error=None, broken=False):
        super().__init__(*read_each("v5e:4x4", [mesh]))
        self.steps, self.error, self.broken, self.ends = steps, error, broken, 0

    def _start(self):
        if self.broken:
            raise RehearsalError("no libtpu")
        Stand.live.add(self.pod.label)
        Stand.most = max(Stand.most, len(Stand.live))
        self.report.write_text(to_line(Compiling(name="step")))

    def _step(self, wait_s):
        self.steps -= 1
        if self.steps > 0:
            return False
        with self.report.open("a") as file:
            file.write(to_line(Compiled(program=PROGRAM)))
        Stand.live.discard(self.pod.label)
        if self.error is not None:
            raise self.error
        return True

    def _runs(self):
        return True

    def _outcome(self):
        return None

    def _give_up(self, timeout_s):
        Stand.live.discard(self.pod.label)
        return RehearsalError(f"took {timeout_s:g} s")

    def _printed(self):
        return f"of {self.pod.label}"

    def interrupt(self):
        self.end()

    def end(self):
        self.ends += 1
        Stand.live.discard(self.pod.label)
        self._folder.cleanup()


@pytest.fixture(autouse=True)
def none_live():
    Stand.live.clear()
    Stand.most = 0
    yield
    assert not Stand.live


@pytest.fixture
def stand():
    made = []

    def make(mesh, **options):
        made.append(Stand(mesh, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


def compare(runs, *, timeout_s=None, most=2, progress=lambda states: None):
    return side_by_side(runs, timeout_s=timeout_s, most=most, progress=progress)


def test_no_more_run_at_once_than_there_are_processors(stand):
    found = compare([stand(mesh) for mesh in MESHES])
    assert [(one.pod.label, one.output) for one in found.rehearsed] == [
        (mesh, f"of {mesh}") for mesh in MESHES
    ]
    assert all(one.programs == (PROGRAM,) and not one.failure for one in found.rehearsed)
    assert Stand.most == 2


def test_where_each_stands_is_said_while_it_does(stand, capsys):
    display = SideBySideDisplay(in_notebook=False)
    compare([stand(mesh) for mesh in MESHES[:2]], most=1, progress=display)
    assert [
        line.partition(": ")[2].partition(", ")[0] for line in capsys.readouterr().out.splitlines()
    ] == [
        "compiling step",
        "waiting for a processor",
        "ended with 1 program",
        "compiling step",
        "ended with 1 program",
    ]


def test_those_that_fail_are_named_and_the_others_are_shown(stand):
    failing = stand(MESHES[1], error=RehearsalError("no memory"))
    found = compare([stand(MESHES[0]), failing, stand(MESHES[2], broken=True)])
    assert [one.failure for one in found.rehearsed] == ["", "no memory", "no libtpu"]
    assert [len(one.programs) for one in found.rehearsed] == [1, 1, 0]
    assert "a=4,b=4 failed: no memory" in found.text() and "jit_step" in found.text()
    assert (found.exit_code, failing.state().phase) == (2, "failed")


def test_each_has_the_time_that_is_given(stand):
    found = compare([stand(MESHES[0]), stand(MESHES[1], steps=10**9)], timeout_s=0.05)
    assert found.rehearsed[1].failure == "took 0.05 s"


def test_an_interrupt_ends_all_and_says_where_each_stood(stand):
    runs = [stand(mesh, steps=10**9) for mesh in MESHES]

    def interrupted(states):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"a=16: compiling step, .*a=2,b=8: waiting"):
        compare(runs, progress=interrupted)
    assert [one.ends for one in runs] == [1, 1, 1]


def test_an_interrupt_of_one_alone_is_its_own(stand, monkeypatch):
    alone = stand(MESHES[0])

    def interrupted(wait_s):
        raise KeyboardInterrupt

    monkeypatch.setattr(alone, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt) as failure:
        compare([alone])
    assert (str(failure.value), alone.ends) == ("", 1)


def test_how_a_process_ended_is_said():
    assert "killed (signal 9)" in how_it_ended(-signal.SIGKILL)
    assert how_it_ended(1).endswith("with exit code 1.")


@pytest.mark.parametrize(
    "said", ["Could not mmap: Cannot allocate memory [12]", "RAW: mmap error: 12", "std::bad_alloc"]
)
def test_a_compiler_that_gets_no_memory_is_named(said):
    for number in (signal.SIGABRT, signal.SIGSEGV):
        assert "(ulimit -v)" in how_it_ended(-number, f"F1125 {said}\n at")
        assert "memory" not in how_it_ended(-number, "Check failed: x")
    assert "memory" not in how_it_ended(1, said)
