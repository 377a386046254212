"""Out of step, only cells that compute nothing run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.contract.cells import Doubt
from nbdist.errors import Notice, SessionError
from nbdist.session.cells.doubt import (
    UnsureError,
    because,
    computes,
    doubt_text,
    refuse_computing,
    refuse_unsure,
    unsure_text,
)
from nbdist.session.cells.facts import ProcessFacts

LOOKS = [
    "",
    "# nothing",
    "x",
    "'a text'",
    "1, 2.5, None, True, ...",
    "x.shape",
    "print(x.shape, x.dtype, x.sharding.spec, sep='\\n')",
    "[x, y]",
    "{'a': x}",
    "f'{x.shape} of {x.dtype}'",
    "f'{x!r:>10}'",
    "type(x)",
    "dir()",
    "len(losses)",
    "pass",
    "del x",
    "del x, y; print(z)",
    "print(print)",
    "mesh.size; mesh",
]

COMPUTES = [
    "x + 1",
    "-x",
    "x @ y",
    "x.T",
    "x.sum()",
    "x[0]",
    "x[:]",
    "x == y",
    "not x",
    "x if y else z",
    "x and y",
    "x < y < z",
    "x.at",
    "x.real",
    "f(x)",
    "print(f(x))",
    "print(x.sum())",
    "f'{x.sum()}'",
    "f'{x:{y.sum()}}'",
    "f'{x:{w}}'",
    "y = x + 1",
    "x += 1",
    "y = x",  # so that a value of one process alone cannot take a name's place
    "print = f",
    "del x.shape",
    "del x[0]",
    "del (x, y[0])",
    "import jax",
    "from jax import numpy",
    "def f(): pass",
    "class A: pass",
    "lambda: x",
    "[a for a in x]",
    "{a: 1 for a in x}",
    "(a for a in x)",
    "for a in x: pass",
    "while x: pass",
    "if x: pass",
    "with x: pass",
    "try:\n    x\nexcept E: pass",
    "raise x",
    "assert x",
    "match x:\n    case 1: pass",
    "await x",
    "print(*x)",
    "print(**x)",
    "{**x}",
    "[*x]",
    "(y := x)",
    "global x",
    "%time x",
    "%%bash\nls",
    "!ls",
    "x?",
    "x =",
    "print(x",
    "\x00",
    "type(x)(y)",
    "getattr(x, 'T')",
    "eval('x + 1')",
    "exec('x + 1')",
    "print(x).y()",
    "x.shape.count(1)",
    "x.sharding.mesh.f()",
    "print(x, file=f())",
    "@f\ndef g(): pass",
    "type T = f()",
    "(" * 2000 + "x" + ")" * 2000,
    "x" + ".shape" * 50000,
]


@pytest.mark.parametrize("code", LOOKS)
def test_a_cell_that_looks_only_runs(code: str) -> None:
    assert not computes(code)
    refuse_computing(code, ProcessFacts(workers=frozenset({0, 1}), advice="", since=3, why="w"))


@pytest.mark.parametrize("code", COMPUTES, ids=lambda code: code[:30])
def test_a_cell_that_could_compute_does_not(code: str) -> None:
    assert computes(code)


@pytest.mark.parametrize("name", ["sorted", "list"])
def test_functions_that_walk_over_an_array_compute(name: str) -> None:
    """Each element of an array that is walked over is a program of its own, and so is a comparison."""
    assert computes(f"{name}(x)")


def test_a_function_of_the_users_that_has_the_name_of_a_harmless_one_is_not_harmless() -> None:
    facts = ProcessFacts(workers=frozenset({0, 1}), advice="", since=3, why="w")
    with pytest.raises(SessionError):
        refuse_computing("print = f\nprint(x)", facts)


def test_no_repair_is_offered_where_nobody_can_replace_a_process() -> None:
    facts = ProcessFacts(
        workers=frozenset({0, 1}), advice="%dist_recover tries again.", since=3, proves=True
    )
    assert facts.remedy == "%dist_recover tries again."
    with pytest.raises(SessionError) as error:
        refuse_computing("x + 1", replace(facts, lost={1: "killed"}, unreachable=frozenset({1})))
    notice = error.value.notice
    assert notice.title.endswith("since cell 3."), "nothing in place of a reason that is not known"
    assert notice.do.endswith("%dist_pull brings values here, %dist_init --restart starts afresh.")
    assert "%dist_recover" not in str(notice)
    # One that has ended is replaced, if the agent that had started it lives.
    assert replace(facts, lost={1: "killed"}).remedy == "%dist_recover tries again."
    without = replace(facts, lost={1: "killed"}, unreachable=frozenset({1}), proves=False)
    assert without.remedy == "%dist_recover tries again."


def test_where_hosts_can_be_left_out_that_is_offered_for_a_process_that_nobody_can_replace() -> (
    None
):
    facts = ProcessFacts(
        workers=frozenset({0, 1}), advice="{recover} tries again.", proves=True, leaves_out=True
    )
    lost = replace(facts, lost={1: "killed"}, unreachable=frozenset({1}))
    assert "%dist_recover --without HOST" in lost.remedy
    assert "%dist_recover goes on when" in lost.remedy
    cut_off = replace(lost, cut_off=True)
    assert cut_off.remedy.startswith("Nothing can be asked")
    assert "%dist_recover" not in cut_off.remedy
    assert "nbdist-rescued" in cut_off.remedy
    assert "nbdist-rescued" not in replace(cut_off, proves=False).remedy
    assert facts.remedy == "%dist_recover tries again."


def test_the_error_says_since_when_why_and_what_to_do() -> None:
    facts = ProcessFacts(
        workers=frozenset({0, 1}),
        advice="%dist_recover tries again.",
        since=3,
        why="process 1 did not stop when interrupted",
    )
    with pytest.raises(SessionError) as error:
        refuse_computing("x + 1", facts)
    notice = error.value.notice
    assert (notice.level, notice.code, notice.do) == ("bad", "out of step", facts.advice)
    assert notice.title == (
        f"This cell was not run: the processes have not been in step since cell 3: {facts.why}."
    )
    assert notice.text, "what still runs"


UNSURE = ProcessFacts(
    workers=frozenset({0, 1}),
    advice="",
    unsure=dict.fromkeys("xy", Doubt(kind="copied", of=0)),
)


EVERY = ("x", "y", "train")


@pytest.mark.parametrize(
    ("code", "used", "sets"),
    [
        ("x.shape", EVERY, set()),
        ("print(x)", EVERY, set()),
        ("x, y = mine()", EVERY, {"x", "y"}),
        ("x = y = 0", EVERY, {"x", "y"}),
        ("[x, [y]] = mine()", EVERY, {"x", "y"}),
        ("x: int = f()", ("x",), {"x"}),
        ("x = mine()", ("x", "mine"), {"x"}),
        ("del x", EVERY, {"x"}),
        ("x = mine()\ny = x + 1\ntrain(x, y)", EVERY, {"x", "y"}),
        ("train()", ("train", "z"), set()),
        ("other(z)", (), set()),
    ],
)
def test_what_sets_names_of_a_new_process_again_or_uses_none_runs(
    code: str, used: tuple[str, ...], sets: set[str]
) -> None:
    assert refuse_unsure(code, UNSURE, used) & {"x", "y"} == sets


@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("train()", EVERY),
        ("train()", None),
        ("y + 1", EVERY),
        ("x = y + 1", EVERY),
        ("y = y + 1", EVERY),
        ("y += 1", EVERY),
        ("%time x = 3", None),
        ("if a:\n    x = y = 1", EVERY),
        ("y: int", EVERY),
        ("train(y)\ny = 1", EVERY),
    ],
)
def test_what_may_use_them_is_refused_with_the_names_and_what_to_do(
    code: str, used: tuple[str, ...] | None
) -> None:
    with pytest.raises(UnsureError, match=r"y w.* copied from process 0") as e:
        refuse_unsure(code, UNSURE, used)
    assert "y" in e.value.names


def test_only_the_names_that_were_said_are_gone_on_with() -> None:
    with pytest.raises(UnsureError) as e:
        refuse_unsure("x + 1", UNSURE, ("x",))
    assert e.value.names == {"x"}
    ((why, do),) = because({"x": UNSURE.unsure["x"]})
    assert e.value.notice == Notice(
        level="bad",
        title="This cell was not run: it may use x.",
        text=why,
        do=f"{do} To use what is there, run the cell once more.",
        code="in doubt",
    )


def test_why_names_are_in_doubt_is_not_said_twice() -> None:
    """What was done before the cell has said so of the names that are in doubt since then."""
    facts = replace(UNSURE, unsure={**UNSURE.unsure, "w": Doubt(kind="older", of=4)})
    with pytest.raises(UnsureError) as e:
        refuse_unsure("x + y + w", facts, ("x", "y", "w"), said={"x", "y"})
    ((why, do),) = because({"w": Doubt(kind="older", of=4)})
    assert e.value.notice.title.endswith("it may use x, y, w.")
    assert e.value.notice.text == why
    assert e.value.notice.do.startswith(f"{do} To use")
    assert e.value.names == {"w", "x", "y"}
    assert unsure_text("print(x)", facts, ("x",), said={"x", "y"}) is None


def test_names_in_doubt_for_one_reason_are_told_together() -> None:
    older, copied = Doubt(kind="older", of=4), Doubt(kind="copied", of=0)
    unsure = {"w": older, "x": copied, "y": older}
    told = [*because({"w": older, "y": older}), *because({"x": copied})]
    assert because(unsure) == told
    assert [what.partition(" ")[0] for what, _ in told] == ["w,", "x"]
    assert doubt_text(unsure) == " ".join(f"{what} {do}" for what, do in told)


@pytest.mark.parametrize(
    ("code", "used", "said"),
    [
        (
            "print(x)",
            ("print", "x"),
            doubt_text({"x": UNSURE.unsure["x"]}),
        ),
        ("z", ("z",), None),
        ("x = 1; x", ("x",), None),
    ],
)
def test_what_is_only_looked_at_is_said_to_be_unsure(
    code: str, used: tuple[str, ...], said: str | None
) -> None:
    assert unsure_text(code, UNSURE, used) == said
