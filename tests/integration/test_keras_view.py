"""Rows K4 and K5 of Keras' distribution API on real processes: what the view shows, live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist import Session
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import ArrayError
from tests.integration.notebook import Notebook
from tests.waiting import wait_for

SETUP = """
import jax, keras, numpy as np, time
from pathlib import Path
keras.utils.set_random_seed(0)
mesh = keras.distribution.DeviceMesh((2, 2), ["batch", "model"])
layouts = keras.distribution.LayoutMap(mesh)
layouts["net/dense/kernel"] = (None, "model")
layouts[".*attention.*"] = ("model", None)
both = keras.distribution.ModelParallel(
    layout_map=layouts, batch_dim_name="batch", auto_shard_dataset=False
)
keras.distribution.set_distribution(both)
model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32, name="dense"), keras.layers.Dense(20000, name="wide")],
    name="net",
)
model.compile(keras.optimizers.Adam(name="adam"), "mse")
x = np.ones((32, 16), np.float32)
y = np.zeros((32, 20000), np.float32)
def until(name):
    while not Path({folder!r}, name).exists():
        time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("over"))


@pytest.fixture(scope="module")
def keras_session(folder: str) -> Iterator[Session]:
    """Two processes of two devices, joined by Keras, with a model under a `ModelParallel`."""
    with nbdist.start(2, devices_per_process=2, platform="cpu", framework="keras") as found:
        found.run(SETUP.replace("{folder!r}", repr(folder)))
        yield found


@pytest.fixture
def say(folder: str) -> Callable[[str], None]:
    """Lets the cell that waits `until` a name go on."""
    return lambda name: Path(folder, name).touch()


def wait(session: Session, fulfilled: Callable[[Snapshot], bool]) -> Snapshot:
    """The first snapshot that is as wanted."""
    return wait_for(lambda: now if fulfilled(now := session.snapshot()) else None)


def progress(what: str) -> Callable[[Snapshot], bool]:
    """Whether all processes say what they are in."""
    return lambda now: all(p.progress and p.progress.what == what for p in now.processes)


def kinds(snapshot: Snapshot) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.kind, one.processes) for one in snapshot.distributions]


def test_k4_the_view_shows_the_distribution_that_is_set_now_in_the_middle_of_a_cell(
    keras_session: Session, say: Callable[[str], None]
) -> None:
    cell = keras_session.run(
        "with keras.distribution.DataParallel(auto_shard_dataset=True).scope():\n    until('scope')\n"
        "until('left')\nkeras.distribution.set_distribution(None)\nuntil('none')\n"
        "keras.distribution.set_distribution(both)\nuntil('again')\nkeras.utils.clear_session()\n"
        "until('cleared')\nkeras.distribution.set_distribution(both)\n",
        wait=False,
    )
    snapshot = wait(keras_session, lambda now: kinds(now) == [("DataParallel", ())])
    (one,) = snapshot.distributions
    (mesh,) = [mesh for mesh in snapshot.meshes if mesh.id == one.mesh]
    assert (one.batch_axis, one.auto_shard) == ("batch", True)
    assert mesh.devices == ("0:0", "0:1", "1:2048", "1:2049")
    whole = [("ModelParallel", ())]
    said: tuple[tuple[str, list[tuple[str, tuple[int, ...]]]], ...] = (
        ("scope", whole),
        ("left", []),
        ("none", whole),
        ("again", []),
        ("cleared", whole),
    )
    for name, expected in said:
        say(name)
        wait(keras_session, lambda now, expected=expected: kinds(now) == expected)
    cell.wait()


def test_k4_processes_that_disagree_are_flagged(
    keras_session: Session, say: Callable[[str], None]
) -> None:
    cell = keras_session.run(
        "if jax.process_index() == 1: keras.distribution.set_distribution(None)\nuntil('differ')\n"
        "keras.distribution.set_distribution(both)\n",
        wait=False,
    )
    snapshot = wait(keras_session, lambda now: bool(now.disagreements))
    # Also what is asked for in the middle of a cell is what was reported.
    assert "as last reported" in keras_session.layout("model").text()
    say("differ")
    cell.wait()
    (found,) = [one for one in snapshot.disagreements if one.about == "distribution"]
    assert [version.processes for version in found.versions] == [(0,), (1,)]
    assert kinds(snapshot) == [("ModelParallel", (0,))]
    wait(keras_session, lambda now: not now.disagreements)


def test_k5_each_variable_s_rule_layout_and_bytes_are_in_the_view_and_in_dist_layout(
    keras_session: Session,
) -> None:
    keras_session.run("model.optimizer.build(model.trainable_variables)")
    snapshot = wait(
        keras_session, lambda now: [len(one.variables) for one in now.models] == [4 + 2 + 8]
    )
    (model,) = snapshot.models
    (distribution,) = snapshot.distributions
    assert [rule.pattern for rule in distribution.rules] == ["net/dense/kernel", ".*attention.*"]
    by_path = {variable.path: variable for variable in model.variables}
    kernel, wide = by_path["net/dense/kernel"], by_path["net/wide/kernel"]
    assert (kernel.rule, kernel.axes, kernel.spec, kernel.device_bytes) == (
        *("net/dense/kernel", (None, "model"), ((), ("model",))),
        16 * 32 * 4 // 2,
    )
    assert by_path["adam/net_dense_kernel_momentum"].rule == "net/dense/kernel"
    assert (wide.missed, wide.device_bytes) == (True, 32 * 20000 * 4)
    assert model.unmatched == (".*attention.*",)
    (total,) = model.totals
    assert total.devices == ("0:0", "0:1", "1:2048", "1:2049")
    assert total.nbytes == sum(variable.device_bytes for variable in model.variables)
    # Every one is among the arrays, by an expression that works.
    assert {variable.array for variable in model.variables} <= {one.path for one in snapshot.arrays}
    assert kernel.array == "model.layers[0].kernel"

    layout = keras_session.layout("model")
    assert layout.model.variables == model.variables
    text = layout.text()
    assert "!  net/wide/kernel" in text
    assert "rule that matches nothing:\n  .*attention.*" in text
    assert "distribution ModelParallel  mesh batch=2 × model=2" in text
    shards = keras_session.shards("model.layers[0].kernel").text()
    assert "P(None, 'model') on mesh batch=2 × model=2" in shards
    assert "[0:16, 16:32]  1 KB  p0 · d1, p1 · d1" in shards


def test_what_fit_and_evaluate_told_last_is_shown_while_they_run(
    keras_session: Session, say: Callable[[str], None]
) -> None:
    cell = keras_session.run(
        "class Hold(keras.callbacks.Callback):\n    def on_epoch_begin(self, epoch, logs=None):\n"
        "        if epoch: until('epoch')\n"
        "    def on_train_batch_begin(self, batch, logs=None):\n        if batch == 1: until('batch')\n"
        "history = model.fit(x, y, epochs=2, batch_size=16, verbose=0, callbacks=[Hold()])\n"
        "history = history.history\n",
        wait=False,
    )
    # In the middle of an epoch Keras has taken the values out of the variables.
    snapshot = wait(keras_session, lambda now: now.processes[0].line == 6)
    assert [len(one.variables) for one in snapshot.models] == [4 + 2 + 8]
    say("batch")
    snapshot = wait(keras_session, progress("fit, epoch 1 of 2"))
    assert [metric.name for metric in snapshot.processes[0].progress.metrics] == ["loss"]  # type: ignore[union-attr]
    say("epoch")
    cell.wait()
    losses = keras_session.pull("history")["loss"]
    done = wait(keras_session, progress("fit, epoch 2 of 2"))
    assert done.processes[1].progress.metrics[0].value == pytest.approx(losses[1])  # type: ignore[union-attr]
    keras_session.run("model.evaluate(x, y, batch_size=16, verbose=0)")
    wait(keras_session, progress("evaluate"))


def test_what_is_no_model_is_refused_with_what_to_do(keras_session: Session) -> None:
    with pytest.raises(ArrayError, match=r"'x' \(of type ndarray\) is no Keras model or layer"):
        keras_session.layout("x")
    with pytest.raises(ArrayError, match="'nothing' raised NameError on process 0"):
        keras_session.layout("nothing")


def test_dist_layout_prints_the_layout_and_teaches_what_it_takes(fresh: Notebook) -> None:
    fresh.good("%dist_init -n 1 --devices-per-process 4 --platform cpu --framework keras")
    fresh.good("%%dist\n" + SETUP.replace("{folder!r}", "'.'"))
    shown = fresh.shows("%dist_layout model", "6 variables", "net/dense/kernel", "(None, 'model')")
    fresh.shows("%dist_layout", "MODEL")
    fresh.fails("%dist_layout x", "ArrayError", "ndarray")
    sleeps = "%%dist --no-wait\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"
    fresh.background(sleeps, "begun")

    def reported() -> list[str] | None:
        lines = fresh.good("%dist_layout model").text.splitlines()
        return lines if "6 variables" in lines[1] else None

    # The last report may be one of the middle of the cell that has made the model.
    first, *others = wait_for(reported)
    assert first.startswith("as last reported")
    assert sorted(others) == sorted(shown.splitlines())
    fresh.good("%dist_interrupt")
