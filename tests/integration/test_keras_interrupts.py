"""A process that waits in Keras' `fit` for one that has left it comes back, and loses nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.integration.notebook import Notebook
from tests.variants import cases

START = "%dist_init -n 2 --devices-per-process 2 --platform cpu --framework keras"
SETUP = """%%dist
import jax, keras, numpy as np
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
me = jax.process_index()


def new_model():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model

def losses():
    return new_model().fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history["loss"]

model = new_model()
x, y = np.full((64, 8), 1 + me, "float32"), np.ones((64, 1), "float32")  # each process has rows of its own
kept = 41
before = losses()

class Leaves(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if me == 1 and batch == 2:
            raise RuntimeError("boom")

class LeavesBetweenEpochs(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if me == 1:
            raise RuntimeError("boom")
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("interrupts")) as found:
        found.good("%load_ext nbdist")
        yield found


@pytest.fixture
def notebook(kernel: Notebook) -> Iterator[Notebook]:
    kernel.good(START)
    kernel.good(SETUP)
    yield kernel
    kernel.run("%dist_shutdown")


@pytest.mark.parametrize("leaves", cases("Leaves", "LeavesBetweenEpochs"))
def test_the_others_are_freed_when_one_raises_in_the_middle_of_fit(
    notebook: Notebook, leaves: str
) -> None:
    # Between two epochs Keras assigns its metrics, in which JAX compares the values of all processes.
    failed = notebook.bad(
        f"%%dist --grace 1\nmodel.fit(x, y, epochs=3, batch_size=8, verbose=0, callbacks=[{leaves}()])"
    )
    assert "RuntimeError: boom" in failed.traceback
    # On a busy machine the grace period can end before it is seen to wait.
    assert re.search("process 0   interrupted (while waiting|in line)", failed.traceback)
    assert "stuck" not in failed.text + failed.traceback
    # After the repair Keras trains anew, and the processes agree on it through the new coordinator.
    again = notebook.good("%%dist\nprint(kept + 1, losses() == before)")
    assert "processes 0, 1   42 True" in again.text


def test_an_interrupt_ends_fit_on_all(notebook: Notebook) -> None:
    ended = notebook.bad(
        "%%dist --timeout 4\nmodel.fit(x, y, epochs=100000, batch_size=8, verbose=0)"
    )
    assert "CellTimeout" in ended.traceback
    assert "stuck" not in ended.text + ended.traceback
    again = notebook.good("%%dist\nprint(kept + 1, losses() == before)")
    assert "processes 0, 1   42 True" in again.text
    # Where one was a step further than the other, that step was lost, and it is said.
    if "lost:" not in ended.text:
        notebook.good("%%dist\nmodel.fit(x, y, verbose=0)")


def test_fit_in_the_background_stops_before_the_same_batch_on_all(notebook: Notebook) -> None:
    request = notebook.send(
        "%%dist --no-wait\n"
        "count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))\n"
        "steps = []\n"
        "begin = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: print('begins'))\n"
        "model.fit(x, y, epochs=100000, batch_size=8, verbose=0, callbacks=[count, begin])"
    )
    notebook.collect(request)
    notebook.collect(request, until="begins")
    said = notebook.good("%dist_interrupt --stop-at-step").text
    assert "stops before the same step on processes 0, 1" in said, said
    ended = notebook.collect(
        request, until=r"ended after .*: processes 0, 1 stopped before step \d+"
    )
    assert "in step again" not in ended.text
    same = notebook.good("%dist len(steps), losses() == before").text
    assert re.fullmatch(r"processes 0, 1   \(\d+, True\)", same), same
