"""What was compiled before is not compiled again: compilations are counted, in a process each."""

from __future__ import annotations

import gzip

import pytest

from nbdist.rehearsing.asked import read_asked
from nbdist.rehearsing.process import RehearsalProcess
from tests.rehearsal.test_cells import START, Shown

COUNT = """
import jax
counted = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *a, **k: counted.append(name) if name.endswith("backend_compile_duration") else None)
"""

STEP = (
    START
    + """
def step(w, x):
    return w + (x.T @ x) * 1e-3, (w.sum(), x)
w = jax.device_put(np.ones((256, 256), np.float32), NamedSharding(mesh, P(None, "model")))
y = x * 2 + 1
w, (total, x) = jax.jit(step)(w, y)
big = jax.jit(lambda: jnp.ones((300000, 300000)))()
"""
)

SAID = "print(w.sharding, total.sharding, x.sharding, [p.name for p in pod.programs], len(counted))"


def rehearse(mesh="data=4,model=4", *, first="", step=STEP, topology="v5e:4x4"):
    """Runs the step in a new process; what it shows, how its results lie, and how often it compiled."""
    process = RehearsalProcess(read_asked(topology, mesh))
    shown = Shown(process)
    try:
        shown.run(COUNT)
        programs = shown.run(f"# first line\n{first}\n{step}")
        results, _, count = shown.run(SAID).rpartition(" ")
    finally:
        process.end()
    return programs, results, int(count)


@pytest.fixture(scope="module")
def once():
    return rehearse()


def test_the_second_time_nothing_is_compiled_and_all_is_the_same(once):
    assert once[2] > 1
    assert "jit_step: fits" in once[0]
    assert "does not fit" in once[0]
    programs, results, count = rehearse()
    assert count == 0
    assert (programs, results) == once[:2]


@pytest.mark.parametrize(
    "changed",
    [
        {"mesh": "data=2,model=8"},
        {"mesh": "model=4,data=4"},
        {"topology": "v6e:4x4"},
        {"step": STEP.replace("1e-3", "1e-4")},
        {"first": "\n"},
        {"first": "import jax; jax.config.update('jax_default_matmul_precision', 'highest')"},
        {
            "first": "from jax.sharding import Mesh; mesh = Mesh(mesh.devices[::-1], mesh.axis_names)"
        },
        {
            "step": STEP.replace(
                "jax.jit(step)",
                "jax.jit(step, compiler_options={'xla_tpu_enable_latency_hiding_scheduler': 'false'})",
            )
        },
    ],
    ids=["mesh", "axes", "chip", "code", "line", "setting", "order", "option"],
)
def test_what_differs_is_compiled(once, changed):
    assert rehearse(**changed)[2] > 0


def test_a_file_that_is_broken_is_made_again(once, kept_folder):
    for number, path in enumerate(sorted(kept_folder.iterdir())):
        path.write_bytes([b"", b"no gzip", gzip.compress(b"[1]"), gzip.compress(b"{")][number % 4])
    programs, results, count = rehearse()
    assert count == once[2]
    assert (programs, results) == once[:2]
    assert rehearse()[2] == 0


def test_the_folder_is_this_users_alone(once, kept_folder):
    assert kept_folder.stat().st_mode & 0o077 == 0
