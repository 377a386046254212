"""A machine that has not enough memory for the compiler, simulated by a limit of its process."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from nbdist.errors import ProcessError, RehearsalError
from tests.rehearsal.test_cells import START, Shown

TOO_LARGE = (
    START
    + """
import resource
jax.jit(lambda x: x + 1)(x)  # the compiler is loaded

def step(x):
    for turn in range(60):
        x = jnp.tanh(x @ jnp.roll(x, turn, 0).T @ x) * turn
    return x

pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (8 << 20)
lowered = jax.jit(step).lower(jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
lowered.compile()
"""
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")


NAMED = "no more memory|MemoryError"
"""Python may be who asks for memory first."""


@linux
def test_a_cell_ends_with_an_error_that_names_it():
    shown = Shown()
    try:
        with pytest.raises((RehearsalError, ProcessError), match=NAMED) as failure:
            shown.run(TOO_LARGE)
        assert shown.process.alive == isinstance(failure.value, ProcessError)
    finally:
        shown.process.end()


@linux
def test_a_script_on_several_meshes_ends_with_an_error_that_names_it(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        f"if mesh.shape['data'] == 2:\n    exec({TOO_LARGE!r})\nelse:\n    exec({START!r})\n"
        "    jax.jit(lambda x: x + 1)(x)\n"
    )
    meshes = ["--mesh=data=4,model=4", "--mesh=data=2,model=8"]
    done = subprocess.run(
        [sys.executable, "-m", "nbdist.cli", "rehearse", script, "--topology=v5e:4x4", *meshes],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "data=2,model=8 failed: " in done.stdout
    assert re.search(NAMED, done.stdout)
    assert "data=4,model=4" in done.stdout
