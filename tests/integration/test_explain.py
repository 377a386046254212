"""`%dist_explain`: what a call would run on the processes, compiled by all of them and run by none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.notebook import Notebook

SETUP = """%%dist
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("data",))
batch = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P("data")))
params = jax.device_put(jnp.ones((16, 16)), NamedSharding(mesh, P()))
runs = []
@jax.jit
def step(params, batch, rate=0.1):
    jax.debug.callback(lambda: runs.append(1))
    return params - rate * jax.grad(lambda w: ((batch @ w) ** 2).sum())(params)
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("explaining")) as found:
        found.good("%load_ext nbdist")
        found.good("%dist_init -n 2 --devices-per-process 2 --platform cpu")
        found.good(SETUP)
        yield found
        found.run("%dist_shutdown")


def test_a_step_is_explained_and_not_run(notebook: Notebook) -> None:
    lines = notebook.good("%dist_explain step(params, batch, rate=0.2)").text.splitlines()
    assert lines[0].startswith("jit_step: ") and lines[0].endswith(" on each device")
    (row,) = [line.split() for line in lines if line.startswith("all-reduce")]
    # A gradient of 16 × 16 numbers of 4 bytes, in line 11 of the cell.
    assert row == ["all-reduce", "data", "1", "KB", "1", "backward", "cell,", "line", "11"]
    assert notebook.good("%dist len(runs)").text.split()[-1] == "0"
    assert "checked just now" in notebook.good("%dist_recover").text


def test_a_process_with_another_program_is_named(notebook: Notebook) -> None:
    notebook.good("%%dist\nscale = 1.0 + jax.process_index()\nother = jax.jit(lambda x: x * scale)")
    shown = notebook.good("%dist_explain other(batch)").text
    assert shown.startswith("other(batch) is another program on process 1. Programs that run")
    same = notebook.good("%dist_explain step(params, batch)").text
    assert "another program" not in same


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
    assert said in notebook.bad(f"%dist_explain {line}").traceback
    assert notebook.good("%dist 6 * 7").text.split()[-1] == "42"


def test_it_teaches_what_it_takes(notebook: Notebook) -> None:
    assert "CALL" in notebook.good("%dist_explain").text
