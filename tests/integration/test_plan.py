"""`%dist_plan` and `%dist_explain` in a real kernel: what devices would hold, and what a call would run.

A plan is made without a session as well, and with one whose processes have other names. What is explained is
compiled by all processes and run by none.
"""

from __future__ import annotations

import pytest

from tests.builders.cells import SPREAD
from tests.integration.notebook import Notebook

SETUP = f"""{SPREAD}
batch, params = spread(np.ones((8, 16), "f4"), "x"), spread(np.ones((16, 16), "f4"))
theirs = {{"w": spread(np.zeros((8, 4), "float32"), "x")}}
runs = []
@jax.jit
def step(params, batch, rate=0.1):
    jax.debug.callback(lambda: runs.append(1))
    return params - rate * jax.grad(lambda w: ((batch @ w) ** 2).sum())(params)
"""
LINE = f"%%dist\n{SETUP}".partition("    return params")[0].count("\n") + 1

SHAPES = """
import numpy as np
params = {"up": np.broadcast_to(np.float32(0), (4096, 8192)), "bias": np.zeros(8192, "float32")}
rules = [("up", (None, "model"))]
"""
PLAN = "%dist_plan --topology v5e:16x16 --mesh data=16,model=16"


@pytest.fixture
def alone(kernel: Notebook) -> Notebook:
    """A kernel without a session, with two arrays; it stays as it is."""
    kernel.good(SHAPES)
    return kernel


def test_a_plan_needs_neither_a_session_nor_a_framework(alone: Notebook) -> None:
    shown = alone.good(f"{PLAN} --specs rules params")
    lines = shown.text.splitlines()
    assert lines[0] == "v5e:16x16, 256 chips, 16 GB per device, mesh data=16 × model=16"
    assert "2 arrays, 128 MB" in lines[2] and "8 MB of 16 GB" in lines[2]
    assert shown.mime("text/html")
    frameworks = "{'jax', 'keras', 'tensorflow', 'flax'}"
    assert alone.good(f"import sys; print(sorted({frameworks} & set(sys.modules)))").text == "[]"
    assert not shown.mime("application/vnd.jupyter.widget-view+json")
    # Where the notebook computes with JAX, it says how JAX would lay the mesh, and draws it.
    alone.good("import jax")
    drawn = alone.good(f"{PLAN} --specs rules params")
    assert "model=16  along x (16, a ring)" in drawn.text
    assert len(drawn.mime("application/vnd.jupyter.widget-view+json")) == 1
    assert "<b>planned</b> 256 tpu devices" in drawn.mime("text/html")[-1]


def test_expressions_may_hold_blanks_and_quotes(alone: Notebook) -> None:
    spec = "P('data', 'model')"
    text = alone.good(
        f"{PLAN} --specs \"[('up', ('data', 'model'))]\" {{'a b': params['up']}}"
    ).text
    assert spec not in text  # its path is now `a b`
    alone.shows(
        f"{PLAN} --specs [('a', ('data', 'model'))] {{'a b': params['up']}}", spec, "['a b']"
    )


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("--topology v5e-250 --mesh x=8 params", "Nearest: v5e:16x16 (v5litepod-256)"),
        ("--topology v5e-8 --mesh x=4 params", "These would fit: x=8"),
        ("--topology v5e-8 params", "--mesh is missing"),
        ("--devices 8 --mesh x=8 nothing", "'nothing', and no session runs"),
        ("--devices 8 --mesh x=8 --specs nix params", "--specs nix"),
        ("--devices 8 --mesh x=8 params[", "is no expression"),
        ("--devices x --mesh x=8 params", "invalid int value: 'x'"),
        ("--mash x=8 params", "'--mash'. Did you mean --mesh?"),
        ("--devices 8 params --mesh x=8", "--mesh goes before the expression"),
    ],
)
def test_bad_input_says_what_would_do_and_loses_nothing(
    alone: Notebook, line: str, answer: str
) -> None:
    failed = alone.fails(f"%dist_plan {line}", answer, "Error: ")
    assert "File" not in failed.traceback
    assert alone.good("sorted(params)").text == "['bias', 'up']"


def test_an_expression_that_raises_is_the_notebooks_error(alone: Notebook) -> None:
    alone.fails("%dist_plan --devices 8 --mesh x=8 1 / 0", "ZeroDivisionError")


def test_what_only_the_processes_have_is_planned_as_it_lies_there(notebook: Notebook) -> None:
    notebook.shows(
        "%dist_plan --topology v5e-4 --mesh x=4 theirs",
        "theirs (the processes): 1 array, 128 B; needs 32 B of 16 GB per device",
        "P('x', None)",
    )
    # A rule of the notebook, and another mesh than that of the processes.
    notebook.shows(
        "%dist_plan --devices 8 --mesh model=8 --specs [('^w$',('model',))] theirs",
        "P('model', None)",
        "needs 16 B per device",
    )
    notebook.good("theirs = {'mine': __import__('numpy').zeros(8)}")
    notebook.shows("%dist_plan --devices 8 --mesh x=8 theirs", "(this notebook)")
    notebook.fails("%dist_plan --devices 8 --mesh x=8 nowhere", "ArrayError")
    notebook.shows("%dist_recover", "Nothing was changed")


def test_a_step_is_explained_and_not_run(notebook: Notebook) -> None:
    lines = notebook.good("%dist_explain step(params, batch, rate=0.2)").text.splitlines()
    assert lines[0].startswith("jit_step: ") and lines[0].endswith(" on each device")
    (row,) = [line.split() for line in lines if line.startswith("all-reduce")]
    # A gradient of 16 × 16 numbers of 4 bytes.
    assert row == ["all-reduce", "x", "1", "KB", "1", "backward", "cell,", "line", str(LINE)]
    assert notebook.good("%dist len(runs)").text.split()[-1] == "0"
    notebook.shows("%dist_recover", "Nothing was changed")


def test_a_process_with_another_program_is_named(notebook: Notebook) -> None:
    notebook.good("%%dist\nscale = 1.0 + me\nother = jax.jit(lambda x: x * scale)")
    shown = notebook.good("%dist_explain other(batch)").text
    assert shown.startswith("other(batch) is another program on process 1. Programs that run")
    assert "another program" not in notebook.good("%dist_explain step(params, batch)").text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("step", "is no call"),
        ("step(", "is no expression"),
        ("step(missing)", "NameError"),
        ("len(params)", "is not made by jax.jit"),
    ],
)
def test_what_is_no_call_of_a_program_is_refused(notebook: Notebook, line: str, said: str) -> None:
    notebook.fails(f"%dist_explain {line}", said)
    assert notebook.good("%dist 6 * 7").text.split()[-1] == "42"


@pytest.mark.parametrize(("magic", "takes"), [("%dist_explain", "CALL"), ("%dist_plan", "usage")])
def test_each_teaches_what_it_takes(notebook: Notebook, magic: str, takes: str) -> None:
    assert takes.lower() in notebook.good(magic).text.lower()
