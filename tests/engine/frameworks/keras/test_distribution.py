"""Keras' distribution on the main thread, seen from another thread in the middle of a cell."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import jax
import keras
import pytest
from keras.src.backend.common import global_state

from nbdist.contract import wire
from nbdist.contract.snapshot import Distribution, LayoutRule, Mesh
from nbdist.engine.frameworks.jax.describe import Meshes
from nbdist.engine.frameworks.keras import distribution as distribution_module
from nbdist.engine.frameworks.keras.distribution import (
    SetDistribution,
    describe_distribution,
    describe_mesh,
    hook_changes,
    rules_of,
    sharding_problem,
)
from tests.engine.keras_models import model_parallel
from tests.engine.recording import recorded
from tests.engine.threads import elsewhere


@pytest.fixture
def noted():
    noted = SetDistribution(threading.get_ident())
    yield noted
    noted.unhook()
    keras.distribution.set_distribution(None)


@pytest.fixture
def data():
    return keras.distribution.DataParallel(auto_shard_dataset=False)


def test_a_change_in_the_middle_of_a_cell_is_seen_from_another_thread_at_once(noted, data):
    other = model_parallel()
    assert noted.hook()
    keras.distribution.set_distribution(data)
    assert elsewhere(keras.distribution.distribution) is None
    assert elsewhere(noted.get) is data
    with other.scope():
        assert elsewhere(noted.get) is other
    assert elsewhere(noted.get) is data
    keras.distribution.set_distribution(None)
    assert elsewhere(noted.get) is None


@pytest.mark.parametrize("clear", [keras.utils.clear_session, keras.backend.clear_session])
def test_clear_session_is_seen_under_both_its_names(noted, data, clear):
    noted.hook()
    keras.distribution.set_distribution(data)
    clear()
    assert keras.distribution.distribution() is None
    assert elsewhere(noted.get) is None
    keras.distribution.set_distribution(data)
    assert elsewhere(noted.get) is data


def test_what_another_thread_sets_does_not_count(noted, data):
    noted.hook()
    elsewhere(lambda: keras.distribution.set_distribution(data))
    assert noted.get() is None


def test_only_changes_of_the_distribution_are_followed(data):
    calls = []
    unhook = hook_changes(lambda: calls.append(1))
    try:
        with keras.name_scope("anything"):
            keras.distribution.set_distribution(data)
            global_state.set_global_attribute("something", 1)
    finally:
        unhook()
        keras.distribution.set_distribution(None)
    assert calls == [1]


def test_unhooking_leaves_keras_as_it_was(noted):
    before = global_state.set_global_attribute
    noted.hook()
    assert global_state.set_global_attribute is not before
    noted.unhook()
    assert global_state.set_global_attribute is before


def test_without_a_place_to_hook_in_it_is_noted_at_cell_start_and_end(noted, data, monkeypatch):
    monkeypatch.setattr(distribution_module, "hook_changes", lambda note: None)
    assert not noted.hook()
    keras.distribution.set_distribution(data)
    assert noted.get() is None
    noted.note()
    assert noted.get() is data


def test_without_the_private_function_nothing_is_hooked(monkeypatch):
    monkeypatch.delattr(global_state, "set_global_attribute")
    assert hook_changes(print) is None


def test_without_the_private_state_no_distribution_is_set(noted, data, monkeypatch):
    keras.distribution.set_distribution(data)
    noted.note()
    assert noted.get() is data
    monkeypatch.delattr(global_state, "GLOBAL_STATE_TRACKER")
    noted.note()
    assert noted.get() is None


def test_no_distribution_is_kept_alive(noted):
    noted.hook()
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    watched = weakref.ref(noted.get())
    vars(global_state.GLOBAL_STATE_TRACKER).clear()
    gc.collect()
    assert watched() is None
    assert noted.get() is None


def test_k5_a_distribution_is_described_with_its_mesh_batch_axis_and_rules():
    distribution = model_parallel({".*kernel": (None, "model"), ".*bias": ("model",)})
    read, on = describe_distribution(distribution, Meshes())
    assert wire.decode(Distribution, wire.encode(read)) == read
    assert wire.decode(Mesh, wire.encode(on)) == on
    assert (read.noun, read.kind, read.batch_axis, read.auto_shard) == (
        *("distribution", "ModelParallel", "batch"),
        False,
    )
    assert read.rules == (
        LayoutRule(pattern=".*kernel", axes=(None, "model")),
        LayoutRule(pattern=".*bias", axes=("model",)),
    )
    assert (read.problem, read.mesh) == (None, on.id)
    assert [(axis.name, axis.size, axis.type) for axis in on.axes] == [
        ("batch", 4, "auto"),
        ("model", 2, "auto"),
    ]
    assert on.devices == tuple(f"0:{device.id}" for device in jax.devices())


def test_the_mesh_has_the_same_id_before_and_after_keras_makes_its_own_of_it():
    mesh = keras.distribution.DeviceMesh((8,), ["batch"])
    before = describe_mesh(mesh, Meshes())
    assert "_backend_mesh" not in vars(mesh)
    assert before == describe_mesh(mesh, Meshes())
    assert mesh.backend_mesh is not None
    assert describe_mesh(mesh, Meshes()) == before


def test_a_mesh_of_devices_that_are_not_there_is_unknown():
    mesh = keras.distribution.DeviceMesh((2,), ["batch"], devices=["cpu:0", "cpu:4096"])
    assert describe_mesh(mesh, Meshes()) is None
    described, _ = describe_distribution(
        keras.distribution.DataParallel(device_mesh=mesh), Meshes()
    )
    assert described.mesh is None


def test_describing_runs_nothing_of_a_user_s_class(data):
    class Mine(keras.distribution.DataParallel):
        @property
        def device_mesh(self):
            raise AssertionError("ran what a user wrote")

        batch_dim_name = auto_shard_dataset = device_mesh

    mine = object.__new__(Mine)
    vars(mine).update(vars(data))
    described, mesh = describe_distribution(mine, Meshes())
    assert (described.kind, described.batch_axis) == ("Mine", "batch")
    assert mesh is not None


def test_without_the_private_names_of_a_map_no_rules_are_known():
    distribution = model_parallel({".*kernel": (None, "model")})
    assert len(rules_of(distribution)) == 1
    del distribution._layout_map
    assert rules_of(distribution) == []


def test_a_back_end_that_offers_nothing_is_reported_in_a_sentence(monkeypatch, data):
    assert sharding_problem() is None
    library = sys.modules["keras.src.backend.jax.distribution_lib"]
    monkeypatch.delattr(library, "distribute_tensor")
    problem = sharding_problem()
    assert "jax back end" in problem
    assert describe_distribution(data, Meshes())[0].problem == problem
    # As torch's in Keras 3.15: no such module at all.
    monkeypatch.delitem(sys.modules, "keras.src.backend.jax.distribution_lib")
    assert sharding_problem() == problem


def test_a_back_end_that_comes_to_offer_it_is_no_problem(monkeypatch):
    monkeypatch.setattr(distribution_module, "backend_name", lambda: "torch")
    assert "torch" in sharding_problem()
    monkeypatch.setitem(
        sys.modules,
        "keras.src.backend.torch.distribution_lib",
        sys.modules["keras.src.backend.jax.distribution_lib"],
    )
    assert sharding_problem() is None


def test_k4_reports_follow_the_distribution_in_the_middle_of_a_cell():
    names = {"keras": keras, "model_parallel": model_parallel, "time": time}
    source = (
        "set_distribution = keras.distribution.set_distribution\n"
        "set_distribution(keras.distribution.DataParallel())\nwait('DataParallel')\n"
        "with model_parallel({'.*': ()}).scope():\n    wait('ModelParallel')\n"
        "wait('DataParallel')\nkeras.utils.clear_session()\nwait(None)\n"
    )
    with recorded(names) as seen:

        def kind():
            lists = [r.distributions for r in seen.reports if r.distributions is not None]
            return (lists[-1][0].kind if lists[-1] else None) if lists else "not known"

        def wait(wanted):
            seen.wait(lambda: kind() == wanted)

        names["wait"] = wait
        seen.run(source)
        meshes = {mesh.id for report in seen.reports for mesh in report.meshes or ()}
        reported = [one for report in seen.reports for one in report.distributions or ()]
    assert {one.kind for one in reported} == {"DataParallel", "ModelParallel"}
    assert {one.mesh for one in reported} <= meshes


def test_the_hook_is_placed_while_a_cell_still_imports_keras():
    code = """
import os, sys, threading
os.environ["KERAS_BACKEND"] = "jax"
from tests.engine.recording import recorded
names = {}
with recorded(names) as seen:
    assert "keras" not in sys.modules
    names["seen"] = seen
    seen.run('''
import keras
keras.distribution.set_distribution(keras.distribution.DataParallel())
seen.wait(lambda: any(r.distributions for r in seen.reports))
''')
print("as it should be")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "as it should be", done.stderr
