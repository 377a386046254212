"""`nbdist.rehearse` in a process that has devices of its own, and scripts; each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PREPARED = """
import os
import jax, jax.numpy as jnp, numpy as np, nbdist
from jax.sharding import NamedSharding, PartitionSpec as P
"""

HERE = (
    PREPARED
    + """
before, variables = jax.devices(), dict(os.environ)
pod = nbdist.rehearse("v5e:4x4")
mesh = pod.mesh(data=4, model=4)
sharded = jax.ShapeDtypeStruct((512, 512), jnp.float32, sharding=NamedSharding(mesh, P("data", "model")))
square = jax.jit(lambda x: x @ x)
fits, again = [pod.compile(square, sharded) for _ in range(2)]
assert fits.fits and fits.collectives
large = pod.compile(jax.jit(lambda: jnp.ones((300000, 300000))))
assert not large.fits and large.refusal.required > large.refusal.available
assert again is fits
assert pod.programs == (fits, large)
assert jax.devices() == before and jax.default_backend() == "cpu" and dict(os.environ) == variables
assert (jnp.ones(3) + 1).tolist() == [2, 2, 2]
try:
    pod.mesh(data=3, model=4)
except nbdist.errors.OptionError as error:
    assert "These would fit" in str(error)
"""
)

SCRIPT = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
jax.distributed.initialize()
rows = np.ones((8, int(sys.argv[1])), np.float32)
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), rows)
assert x.shape[0] == 32, x.shape
total = jax.jit(lambda x: jnp.outer(x, x).sum())(x)
if len(sys.argv) > 2:
    float(total)
"""


def python(*arguments: str, platforms: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    environment |= {"JAX_PLATFORMS": platforms} if platforms else {}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True
    )


def test_a_process_with_devices_keeps_them_and_its_variables():
    done = python("-c", HERE, platforms="cpu")
    assert done.returncode == 0, done.stderr


def test_a_process_that_has_not_chosen_its_devices_is_left_alone():
    done = python("-c", PREPARED + "nbdist.rehearse('v5e:4x4')")
    assert "RehearsalError: JAX has not chosen" in done.stderr
    assert "Call jax.devices() first" in done.stderr
    assert "nbdist rehearse, which has" in done.stderr and "%%" not in done.stderr


def rehearse(tmp_path, *arguments: str) -> tuple[int, list[dict], str]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    options = ("--topology", "v5e-16", "--mesh", "data=16", "--json")
    done = python("-m", "nbdist.cli", "rehearse", str(script), *options, "--", *arguments)
    return done.returncode, json.loads(done.stdout)["programs"], done.stderr


def test_the_exit_code_of_a_script_says_whether_it_fits(tmp_path):
    for size, expected in (("32", 0), ("320000", 1)):
        code, programs, _ = rehearse(tmp_path, size)
        assert code == expected
        assert [(one["name"], one["fits"]) for one in programs] == [("jit__lambda", not code)]


def test_a_script_that_needs_a_value_is_code_2_and_its_line_is_named(tmp_path):
    code, programs, error = rehearse(tmp_path, "32", "value")
    assert (code, len(programs)) == (2, 1)
    assert "ValueNeeded: float()" in error and "train.py: float(total)" in error


ELSEWHERE = (
    PREPARED
    + """
jax.config.update("jax_num_cpu_devices", 4)
live = jax.make_mesh((4,), ("data",))
x = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(live, P("data")))
pod = nbdist.rehearse("v5e:4x4")
try:
    pod.compile(lambda x: x + 1, x)
except nbdist.errors.RehearsalError as error:
    print(error)
print(x.sum(), pod.programs)
"""
)


def test_an_array_on_the_devices_of_this_process_is_refused_and_stays():
    done = python("-c", ELSEWHERE, platforms="cpu")
    assert "shape (8, 8)" in done.stdout and "Give jax.ShapeDtypeStruct(" in done.stdout
    assert done.stdout.endswith("64.0 ()\n"), done.stderr
