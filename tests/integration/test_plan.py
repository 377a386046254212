"""`%dist_plan` in a real kernel: without a session, and with one whose processes have other names."""

from __future__ import annotations

from tests.integration.notebook import Notebook

SHAPES = """
import numpy as np
params = {"up": np.broadcast_to(np.float32(0), (4096, 8192)), "bias": np.zeros(8192, "float32")}
rules = [("up", (None, "model"))]
"""

PLAN = "%dist_plan --topology v5e:16x16 --mesh data=16,model=16"


def test_a_plan_needs_neither_a_session_nor_a_framework(fresh: Notebook) -> None:
    fresh.good(SHAPES)
    shown = fresh.good(f"{PLAN} --specs rules params")
    lines = shown.text.splitlines()
    assert lines[0] == "v5e:16x16, 256 chips, 16 GB a device, mesh data=16 × model=16"
    assert "params (this notebook): 2 arrays, 128 MB; a device would hold 8 MB of 16 GB" in lines[2]
    assert shown.mime("text/html")
    imported = (
        "import sys; print(sorted({'jax', 'keras', 'tensorflow', 'flax'} & set(sys.modules)))"
    )
    assert fresh.good(imported).text == "[]"
    assert not shown.mime("application/vnd.jupyter.widget-view+json")
    # Where the notebook computes with JAX, it says how JAX would lay the mesh, and draws it.
    fresh.good("import jax")
    drawn = fresh.good(f"{PLAN} --specs rules params")
    assert "model=16  along x (16, a ring)" in drawn.text
    assert len(drawn.mime("application/vnd.jupyter.widget-view+json")) == 1
    assert "<b>planned</b> 256 tpu devices" in drawn.mime("text/html")[-1]


def test_expressions_may_hold_blanks_and_quotes(fresh: Notebook) -> None:
    fresh.good(SHAPES)
    text = fresh.good(
        f"{PLAN} --specs \"[('up', ('data', 'model'))]\" {{'a b': params['up']}}"
    ).text
    assert "P('data', 'model')" not in text  # its path is now `a b`
    text = fresh.good(f"{PLAN} --specs [('a', ('data', 'model'))] {{'a b': params['up']}}").text
    assert "P('data', 'model')" in text and "['a b']" in text


def test_bad_input_says_what_would_do_and_loses_nothing(fresh: Notebook) -> None:
    fresh.good(SHAPES)
    for line, answer in {
        "%dist_plan --topology v5e-250 --mesh x=8 params": "Nearest: v5e:16x16 (v5litepod-256)",
        "%dist_plan --topology v5e-8 --mesh x=4 params": "These would fit: x=8",
        "%dist_plan --topology v5e-8 params": "--mesh is missing",
        "%dist_plan --devices 8 --mesh x=8 nothing": "no name 'nothing', and no session runs",
        "%dist_plan --devices 8 --mesh x=8 --specs nix params": "--specs nix: this notebook has no name 'nix'",
        "%dist_plan --devices 8 --mesh x=8 params[": "is no expression of Python",
        "%dist_plan --devices x --mesh x=8 params": "invalid int value: 'x'",
        "%dist_plan --mash x=8 params": "has no option '--mash'. Did you mean --mesh?",
        "%dist_plan --devices 8 params --mesh x=8": "--mesh goes before the expression",
    }.items():
        failed = fresh.bad(line)
        assert answer in failed.traceback, (line, failed.traceback)
        assert "Error: " in failed.traceback and "File" not in failed.traceback
    assert "ZeroDivisionError" in fresh.bad("%dist_plan --devices 8 --mesh x=8 1 / 0").traceback
    assert "usage" in fresh.good("%dist_plan").text.lower()
    assert fresh.good("sorted(params)").text == "['bias', 'up']"


def test_what_only_the_processes_have_is_planned_as_it_lies_there(notebook: Notebook) -> None:
    notebook.good(
        "%%dist\nimport jax, numpy as np\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
        "mesh = jax.make_mesh((4,), ('data',))\n"
        "theirs = {'w': jax.make_array_from_callback((8, 4), NamedSharding(mesh, P('data')), "
        "lambda index: np.zeros((8, 4), 'float32')[index])}"
    )
    text = notebook.good("%dist_plan --topology v5e-4 --mesh data=4 theirs").text
    assert "theirs (the processes): 1 array, 128 B; a device would hold 32 B" in text
    assert "P('data', None)" in text
    # A rule of the notebook, and another mesh than that of the processes.
    text = notebook.good(
        "%dist_plan --devices 8 --mesh model=8 --specs [('^w$',('model',))] theirs"
    ).text
    assert "P('model', None)" in text and "a device would hold 16 B" in text
    notebook.good("theirs = {'mine': __import__('numpy').zeros(8)}")
    assert "(this notebook)" in notebook.good("%dist_plan --devices 8 --mesh x=8 theirs").text
    assert "ArrayError" in notebook.bad("%dist_plan --devices 8 --mesh x=8 nowhere").traceback
    assert "checked just now" in notebook.good("%dist_recover").text
