"""What was compiled before is not compiled again: compilations are counted, in a process each."""

from __future__ import annotations

import gzip
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.contract.program import Program
from nbdist.program.axes import mesh_axes
from nbdist.rehearsal import programs
from nbdist.rehearsal.devices import describe
from nbdist.rehearsal.pod import Pod
from nbdist.rehearsal.programs import CachedProgram, ProgramCache, Programs
from nbdist.rehearsal.topology import read_topology
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
    shown = Shown(topology, mesh)
    try:
        shown.run(COUNT)
        programs = shown.run(f"# first line\n{first}\n{step}")
        results, _, count = shown.run(SAID).rpartition(" ")
    finally:
        shown.process.end()
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
    ],
    ids=["mesh", "axes", "chip", "code", "line", "setting", "order"],
)
def test_what_differs_is_compiled(once, changed):
    assert rehearse(**changed)[2] > 0


def test_what_the_text_does_not_have_is_in_the_key(monkeypatch):
    here, two, three = (describe(read_topology("v5e:2x4", slices=count)) for count in (1, 2, 3))
    option = {"xla_tpu_enable_latency_hiding_scheduler": "false"}
    plain = {"options": None, "order": 1, "pod": here, "ranks": "allow", "arguments": ""}
    changes = [
        {},
        {"options": option},
        {"order": -1},
        {"pod": two},
        {"pod": three},
        {"ranks": "raise"},
        {"arguments": "--a=b"},
        {},
    ]
    keys = []
    for change in changes:  # a text has the line of who calls
        asked = plain | change
        mesh = Mesh(np.array(here.all[:: asked["order"]]), ("a",))
        x = jax.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P("a")))
        monkeypatch.setenv("LIBTPU_INIT_ARGS", asked["arguments"])
        with jax.numpy_rank_promotion(asked["ranks"]):
            lowered = jax.jit(jnp.negative, compiler_options=asked["options"]).lower(x)
            keys.append(ProgramCache(asked["pod"]).key(lowered))
    assert len(set(keys)) == len(changes) - 1
    assert keys[0] == keys[-1]


def test_what_is_kept_has_its_picture(tmp_path, monkeypatch):
    """Of several slices too: the mesh over all, and who exchanges with whom."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found, begun = [], []
    for _ in range(2):
        devices = describe(read_topology("v5e:2x4", slices=2))
        pod = Pod(devices, Programs(devices, lambda program: None, begun.append))
        mesh = pod.mesh(data=4, model=4)
        x = jax.ShapeDtypeStruct(
            (256, 256), np.float32, sharding=NamedSharding(mesh, P("data", "model"))
        )
        found.append(pod.compile(lambda x: x.sum(), x))
    first, second = found
    assert len(begun) == 1
    assert second.snapshot() == first.snapshot()
    assert second.mesh == mesh_axes(mesh)
    assert {one.between_slices for one in second.collectives} == {False, True}
    assert all(one.grouping is not None for one in second.collectives)
    assert [array.path for array in second.snapshot().arrays] == ["args[0]"]
    assert second.snapshot().torus.axes[0].name == "slice"


def test_what_was_not_used_for_long_goes_where_there_is_too_much(tmp_path, monkeypatch):
    devices = describe(read_topology("v5e:2x4"))
    pod = ProgramCache(devices, tmp_path)
    for number, name in enumerate("abc"):
        pod.put(name, CachedProgram(Program(name=name, fits=True), ()))
        os.utime(tmp_path / f"{name}.json.gz", (number, number))
    assert pod.get("a") is not None  # used just now
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    monkeypatch.setattr(programs, "MOST_BYTES", size)
    pod.put("d", CachedProgram(Program(name="d", fits=True), ()))
    assert {name for name in "abcd" if pod.get(name) is not None} == {"a", "c", "d"}


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    tmp_path.chmod(0o777)
    pod = ProgramCache(describe(read_topology("v5e:2x4")), tmp_path)
    pod.put("a", CachedProgram(Program(name="a", fits=True), ()))
    assert pod.get("a") is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_broken_is_made_again(once, kept_folder):
    for number, path in enumerate(sorted(kept_folder.iterdir())):
        path.write_bytes([b"", b"no gzip", gzip.compress(b"[1]"), gzip.compress(b"{")][number % 4])
    programs, results, count = rehearse()
    assert count == once[2]
    assert (programs, results) == once[:2]
    assert rehearse()[2] == 0


def test_the_folder_is_this_users_alone(once, kept_folder):
    assert kept_folder.stat().st_mode & 0o077 == 0
