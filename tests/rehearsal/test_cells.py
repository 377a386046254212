"""Cells in a rehearsal's process, from their text to what is shown."""

from __future__ import annotations

import os

import pytest

from nbdist.contract.page import PROGRAM_MIME_TYPE
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode
from nbdist.errors import CellTimeout, ProcessError, RehearsalError
from nbdist.rehearsal import cells
from nbdist.rehearsal.cells import CellProcess
from nbdist.rehearsal.mesh import read_each
from nbdist.rehearsal.runs import side_by_side

START = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
x = jax.device_put(np.ones((512, 256), np.float32), NamedSharding(mesh, P("data")))
"""


class Shown:
    """What a process shows, as text."""

    def __init__(self, topology="v5e:4x4", mesh="data=4,model=4"):
        (pod,) = read_each(topology, [mesh])
        self.process = CellProcess(pod)
        self.text = ""

    def __call__(self, kind, content):
        self.text += content.get("text", "") + content.get("data", {}).get("text/plain", "")

    def run(self, code, *, value=None, timeout_s=None):
        self.text = ""
        self.shown(code, self, value=value, timeout_s=timeout_s)
        return self.text

    def shown(self, code, show, *, value=None, timeout_s=None):
        self.process.take(code, value=value, shown=show)
        side_by_side([self.process], timeout_s=timeout_s, progress=lambda states: None)
        if self.process.failure is not None:
            raise self.process.failure

    def error(self, code):
        with pytest.raises(ProcessError) as failure:
            self.run(code)
        return str(failure.value)


@pytest.fixture(scope="module")
def kept():
    """A process for the cells that end well."""
    shown = Shown()
    shown.run(START)
    yield shown
    shown.process.end()


@pytest.fixture
def fresh():
    """A process that a test may end."""
    shown = Shown()
    yield shown
    shown.process.end()


def test_the_pod_is_what_the_process_has(kept):
    said = kept.run(
        "print(len(jax.devices()), jax.device_count(), jax.process_count(), jax.local_device_count(), "
        "jax.default_backend(), jax.devices()[0].device_kind, jax.make_mesh((16,), ('x',)).size, mesh.shape)"
    )
    assert said.split()[:7] == ["16", "16", "4", "4", "tpu", "TPU", "v5"]
    assert "16 OrderedDict" in said or "16 {" in said


def test_a_step_is_compiled_once_and_shown_in_each_cell_that_calls_it(kept):
    step = "step = jax.jit(lambda x: (x @ x.T).mean())\nfor _ in range(3): loss = step(x)"
    first = kept.run(step)
    assert first.count("jit__lambda: fits") == 1
    assert "all-reduce" in first
    assert kept.run("loss = step(x)").count("jit__lambda: fits") == 1
    assert kept.run("print(len(pod.programs))").strip() == "1"


def test_what_does_not_fit_is_said_and_the_cell_goes_on(kept):
    said = kept.run("big = jax.jit(lambda: jnp.ones((300000, 300000)))()\nprint('on')")
    assert "does not fit" in said
    assert "RESOURCE_EXHAUSTED" in said
    assert said.endswith("on\n")
    assert "which does not fit" in kept.error("jax.jit(lambda x: x)(big)")


def test_the_line_that_needs_a_value_is_named_and_a_stand_in_helps(kept):
    kept.run("loss = jax.jit(lambda x: x.sum())(x)")
    said = kept.error("y = 1\nif loss > 1:\n    y = 2")
    assert said.startswith("ValueNeeded: if, or bool(), ")
    assert "line 2 of the cell: if loss > 1:" in said
    assert kept.run("print(float(loss), loss > 2)", value=1.5) == "1.5 False\n"


def test_an_error_shows_the_lines_of_the_user_alone(kept):
    with pytest.raises(ProcessError) as failure:
        kept.run("float(jax.jit(lambda x: x.sum())(x))")
    assert "nbdist/rehearsal" not in failure.value.shown
    assert "float(jax.jit" in failure.value.shown


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("jax.jit(lambda x: x if x.sum() > 0 else -x)(x)", "TracerBoolConversionError"),
        (
            "from jax.sharding import Mesh\n"
            "jax.device_put(np.ones(4), NamedSharding(Mesh(np.array(jax.devices('cpu')), ('a',)), P('a')))",
            "rehearsal's v5e:4x4, such as",
        ),
        ("import nbdist; nbdist.rehearse('v5e:3x3')", "OptionError: no topology"),
    ],
)
def test_bad_input_is_refused_with_its_line(kept, code, said):
    assert said in kept.error(code)
    assert kept.run("print(x.shape)") == "(512, 256)\n"


def test_kernels_shard_map_and_callbacks_are_compiled(kept):
    assert "tpu_custom_call" in kept.run(
        "from jax.experimental import pallas as pl\n"
        "def kernel(a, b): b[...] = a[...] * 2\n"
        "double = lambda a: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype))(a)\n"
        "jax.jit(double)(jnp.ones((128, 128), jnp.float32))"
    )
    assert "all-reduce" in kept.run(
        "total = jax.shard_map(lambda a: jax.lax.psum(a, 'data'), mesh=mesh, in_specs=P('data'), out_specs=P())\n"
        "jax.jit(total)(x)"
    )
    said = kept.run(
        "ran = []\n"
        "def shown(a):\n"
        "    jax.debug.callback(ran.append, a.sum())\n"
        "    return a + 1\n"
        "jax.jit(shown)(x); print('ran', ran)"
    )
    assert "jit_shown: fits" in said
    assert said.endswith("ran []\n")


def test_a_pod_of_another_kind_is_compiled_for_in_the_same_process(kept):
    said = kept.run(
        "import nbdist\n"
        "other = nbdist.rehearse('v6e:2x4')\n"
        "there = NamedSharding(other.mesh(a=8), P('a'))\n"
        "program = other.compile(lambda a: a.sum(), jax.ShapeDtypeStruct((64,), np.float32, sharding=there))\n"
        "print(program.collectives[0].axes, other.devices[0].device_kind, jax.devices()[0].device_kind)"
    )
    assert said == "('a',) TPU v6 lite TPU v5 lite\n"


def test_a_cell_that_takes_too_long_is_interrupted_and_its_names_stay(kept, monkeypatch):
    monkeypatch.setattr(cells, "GRACE_S", 120)  # however busy this machine is
    with pytest.raises(CellTimeout, match=r"--timeout 1 and was interrupted\.$"):
        kept.run("import time; time.sleep(600)", timeout_s=1)
    assert kept.run("print(x.shape)") == "(512, 256)\n"


def test_a_compiler_that_does_not_stop_is_ended_and_that_is_said(fresh):
    """A loop that only a signal ends stands for it: C++ does not look at Python's signals either."""
    with pytest.raises(CellTimeout, match="process was ended"):
        fresh.run(
            "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)",
            timeout_s=1,
        )
    assert not fresh.process.alive


def test_a_process_that_was_killed_says_that_memory_was_short(fresh):
    with pytest.raises(RehearsalError, match=r"\(signal 9\): .* memory to compile"):
        fresh.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")


def test_the_variables_of_this_process_stay_as_they_are(kept):
    assert "TPU_WORKER_ID" not in os.environ  # libtpu needs it in the other process
    assert kept.run("import os; print(os.environ['JAX_PLATFORMS'])") == "tpu,cpu\n"


def test_a_program_that_exchanges_data_goes_to_the_notebook_as_a_picture(kept):
    """Once in a cell, also where the cell ends with it."""
    found = []

    def shown(kind, content):
        if kind == "display_data":
            found.append(decode(Snapshot, content["data"][PROGRAM_MIME_TYPE]))
        elif kind == "stream":
            found.append(content["text"])

    for code in (
        "found = pod.compile(lambda x: x.sum(), x)\nfound",
        "found",
        "pod.compile(lambda x: x + 1, x)",
    ):
        kept.shown(code, shown)
    first, second, third = found
    assert first == second
    assert first.program.groupings
    assert first.torus is not None
    assert "exchange nothing" in third
