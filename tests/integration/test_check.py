"""Cells that would not be the same on all processes are refused before any process runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist.errors import AgreementError
from tests.builders.cells import until
from tests.integration.notebook import Notebook

SETUP = """
import os, types
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4,), ("data",))
me = jax.process_index()

def spread(shape, *spec):
    # Each process for itself: device_put of the same would compare values in a collective.
    sharding = NamedSharding(mesh, P(*spec))
    return jax.make_array_from_callback(shape, sharding, lambda part: np.ones(shape, np.float32)[part])

def step(x):
    return x * 2

def reset():
    jax.config.update("jax_enable_x64", False)
    os.environ.pop("XLA_FLAGS", None)
    jax.set_mesh(None)

w = spread((8, 4), "data", None)
params = {"dense": [w]}
key = jax.random.key(7)
fast = jax.jit(step)
"""
AGAIN = """%%dist --no-check
def step(x):
    return x * 2

fast = jax.jit(step)
reset()
w = spread((8, 4), "data", None)
params = {"dense": [w]}
key = jax.random.key(7)
only = None
del only
"""
RUNS = "%%dist --check\nopen(f'ran-{me}', 'w').close()\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("check")


@pytest.fixture(autouse=True)
def agreed(notebook: Notebook, folder: Path) -> Iterator[None]:
    """The processes agree again after each test, and there is no file of `RUNS`."""
    notebook.good(f"%%dist\nos.chdir({str(folder)!r})")
    yield
    notebook.good(AGAIN)
    for ran in folder.glob("ran-*"):
        ran.unlink()


def test_digests_are_the_same_whichever_way_they_come(notebook: Notebook) -> None:
    # A process that does not answer within a second is sent a request: here it is asked again.
    notebook.good(
        "import nbdist\n"
        "from nbdist.contract.calls.engine import AskAgreement\n"
        "engines, cell = nbdist.current()._life.engines, 'fast(w, key, params)'\n"
        "asked = {p: engines.send(p, AskAgreement(code=cell)) for p in (0, 1)}\n"
        "requested = {p: one.get(60)[0].digests for p, one in asked.items()}\n"
        "while (found := engines.asides.digests([0, 1], cell)) is None: pass\n"
        "assert found == requested and found[0] == found[1], (found, requested)"
    )


def refused(notebook: Notebook, folder: Path, differ: str, cell: str) -> str:
    """What is said of a cell after process 1 alone ran `differ`; the cell must not have run anywhere."""
    notebook.good(f"%%dist --no-check\nif me == 1:\n    {differ}")
    output = notebook.fails(RUNS + cell, "AgreementError: ", "Nothing was run.")
    assert list(folder.glob("ran-*")) == []
    return output.traceback


@pytest.mark.parametrize(
    ("differ", "cell", "said"),
    [
        (
            "w = spread((8, 2), 'data', None)",
            "w.sum()",
            "w differs: f32[8, 4] P('data', None) on process 0, f32[8, 2] P('data', None) on process 1",
        ),
        (
            "w = spread((8, 4), None, 'data')",
            "w.sum()",
            "w differs: f32[8, 4] P('data', None) on process 0, f32[8, 4] P(None, 'data') on process 1",
        ),
        (
            "params['dense'][0] = w.addressable_data(0)",
            "fast(params)",
            "params['dense'][0] differs: f32[8, 4] P('data', None) on process 0, "
            "f32[2, 4] of its own on process 1",
        ),
        (
            "params = None",
            "fast(params)",
            "params differs: dict on process 0, NoneType on process 1",
        ),
        (
            "only = 3",
            "print(only)",
            "only differs: missing on process 0, int on process 1",
        ),
        (
            "key = jax.random.key(8)",
            "jax.random.normal(key)",
            "key differs: key (0, 7) on process 0, key (0, 8) on process 1",
        ),
        ("step = lambda x: x * 3", "step(1)", "step differs: code "),
        ("fast = jax.jit(lambda x: x * 3)", "fast(1)", "fast differs: code "),
        (
            "jax.config.update('jax_enable_x64', True)",
            "1",
            "jax_enable_x64 differs: False on process 0, True on process 1",
        ),
        (
            "os.environ['XLA_FLAGS'] = '--xla_cpu_enable_fast_math=true'",
            "1",
            "XLA_FLAGS --xla_cpu_enable_fast_math differs: not set on process 0, true on process 1",
        ),
        (
            "jax.set_mesh(mesh)",
            "1",
            "the mesh in context differs: none on process 0, data=4 on process 1",
        ),
        (
            "optax = types.ModuleType('optax'); optax.__version__ = '0'; "
            "__import__('sys').modules['optax'] = optax",
            "1",
            "the version of optax differs: ",
        ),
        (
            "get_ipython().input_transformers_post.append(lambda lines: [*lines, '# mine'])",
            "1",
            "the cell's text differs: digest ",
        ),
    ],
)
def test_what_differs_is_named_and_nothing_has_run(
    notebook: Notebook, folder: Path, differ: str, cell: str, said: str
) -> None:
    if "optax" in differ:
        notebook.good("%%dist\nif me == 0:\n    import optax")
    try:
        assert said in refused(notebook, folder, differ, cell)
    finally:
        notebook.good(
            "%%dist --no-check\nimport sys\nsys.modules.pop('optax', None)\n"
            "get_ipython().input_transformers_post[:] = "
            "[f for f in get_ipython().input_transformers_post if f.__name__ != '<lambda>']"
        )


def test_a_cell_on_which_all_agree_runs(notebook: Notebook, folder: Path) -> None:
    notebook.good("%%dist\nmine = jnp.ones(me + 1)\nwriter = 'file' if me == 0 else None")
    shown = "print(float(fast(w).sum()), key.shape, params['dense'][0].shape)"
    notebook.shows(f"{RUNS}{shown}", "64.0")
    assert len(list(folder.glob("ran-*"))) == 2
    notebook.good(f"{RUNS}mine.sum(), writer")


def test_a_cell_may_give_processes_the_names_that_only_some_have(notebook: Notebook) -> None:
    notebook.good("%%dist --on 1\nonly = 3")
    notebook.good("%%dist --check\nif me == 1:\n    print(only)")
    notebook.good("%%dist --check\nonly = 4\nprint(only)")


def test_only_targets_are_compared_and_nothing_without_check(notebook: Notebook) -> None:
    notebook.good("%%dist --on 1 --check\nonly = 3")
    notebook.shows("%%dist --on 1 --check\nonly", "3")
    notebook.good(f"{RUNS.replace('--check', '')}me")
    notebook.fails("%%dist --no-check\nonly", "NameError")


def test_a_busy_process_is_named_and_not_waited_for_any_longer(
    notebook: Notebook, folder: Path
) -> None:
    go = folder / "go"
    notebook.good(f"%%dist --on 1 --no-wait\n{until(go)}")
    try:
        traceback = notebook.bad(f"{RUNS}1").traceback
    finally:
        go.touch()
        notebook.good("%sync")
        go.unlink()
    assert re.search(r"process 1 .*busy in cell \d+, line \d, \S", traceback)
    assert list(folder.glob("ran-*")) == []
    notebook.good("%%dist --check\n1")


DIFFERS = "AgreementError", "only differs"


def test_a_kept_session_that_checks_checks_each_cell_also_after_a_restart_and_after_it_was_left(
    tmp_path: Path,
) -> None:
    with Notebook(folder=tmp_path, environment={"NBDIST_STATE": str(tmp_path / "state")}) as found:
        found.good("%load_ext nbdist")
        found.good("%dist_init -n 2 --devices-per-process 1 --platform cpu --keep --check")
        try:
            for again in (
                "%dist_init --restart",
                "%dist_shutdown --leave\n%dist_init --attach last",
                "",
            ):
                found.good("%%dist --on 1 --no-check\nonly = 3")
                found.fails("%%dist\nonly", *DIFFERS, "missing on process 0")
                found.fails("%%dist --no-check\nonly", "NameError")
                found.good("%%dist\nmore = 1\nmore")
                found.good(again)
        finally:
            found.good("%dist_shutdown")


def test_a_session_from_python_checks_by_default_or_for_one_cell() -> None:
    with nbdist.start(2, platform="cpu", check=True) as session:
        session.run("only = 3", on=[1])
        with pytest.raises(AgreementError, match="only differs: missing on process 0"):
            session.run("only")
        session.run("if 'only' in globals(): only", check=False)
        session.run("only = 1\nonly")


KERAS = """%%dist
import jax, keras
me = jax.process_index()
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
"""


def test_another_distribution_of_keras_is_named(fresh: Notebook) -> None:
    fresh.good("%dist_init -n 2 --devices-per-process 2 --platform cpu --framework keras --check")
    fresh.good(KERAS)
    fresh.shows("%%dist\nmodel.count_params() - 3", "12")
    fresh.good("%%dist --no-check\nif me == 1: keras.distribution.set_distribution(None)")
    values = ("AgreementError", "DataParallel over batch=4 on process 0", "none on process 1")
    fresh.fails("%%dist\nmodel.count_params()", *values)
