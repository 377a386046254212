"""Out of step, only cells that compute nothing run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.contract.cells import Doubt
from nbdist.errors import SessionError
from nbdist.session.cells.doubt import (
    UnsureError,
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
    text = str(error.value)
    assert "since cell 3. A cell" in text, "nothing in place of a reason that is not known"
    assert text.endswith("%dist_pull brings values here, %dist_init --restart starts afresh.")
    assert "%dist_recover" not in text
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
    text = str(error.value)
    assert f"since cell 3: {facts.why}." in text
    assert "it was not run" in text
    assert text.endswith("%dist_recover tries again.")


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
    assert str(e.value) == (
        "This cell was not run. x was copied from process 0. If each process should have its own, set it again. "
        "To go on as it is, run the cell once more."
    )
    with pytest.raises(UnsureError, match=r"run\. w, x are as they were after cell 4\. Set what"):
        older = dict.fromkeys("wx", Doubt(kind="older", of=4))
        refuse_unsure("x + w", replace(UNSURE, unsure=older), None)


def test_why_names_are_in_doubt_is_not_said_twice() -> None:
    """What was done before the cell has said so of the names that are in doubt since then."""
    facts = replace(UNSURE, unsure={**UNSURE.unsure, "w": Doubt(kind="older", of=4)})
    with pytest.raises(UnsureError) as e:
        refuse_unsure("x + y + w", facts, ("x", "y", "w"), said={"x", "y"})
    assert str(e.value) == (
        "This cell was not run, since it may use x, y. w is as it was after cell 4. Set what counts steps to "
        "match. To go on as it is, run the cell once more."
    )
    assert e.value.names == {"w", "x", "y"}
    assert unsure_text("print(x)", facts, ("x",), said={"x", "y"}) is None


@pytest.mark.parametrize(
    ("doubt", "said"),
    [
        (
            Doubt(kind="unlike", of=2),
            "it is not the same everywhere as on process 2. Set it again on all.",
        ),
        (
            Doubt(kind="newer", of=4),
            "it has changed since cell 4, and did not go back to it. Set it again.",
        ),
    ],
)
def test_why_a_thing_is_not_as_it_was_is_said(doubt: Doubt, said: str) -> None:
    assert doubt_text({"it": doubt}) == said


@pytest.mark.parametrize(
    ("code", "used", "said"),
    [
        (
            "print(x)",
            ("print", "x"),
            "x was copied from process 0. If each process should have its own, set it again.",
        ),
        ("z", ("z",), None),
        ("x = 1; x", ("x",), None),
    ],
)
def test_what_is_only_looked_at_is_said_to_be_unsure(
    code: str, used: tuple[str, ...], said: str | None
) -> None:
    assert unsure_text(code, UNSURE, used) == said
