"""A process that waits in Keras' `fit` for one that has left it comes back, and loses nothing."""

from __future__ import annotations

import re

import pytest

from tests.builders.keras_cells import DISTRIBUTIONS
from tests.integration.notebook import Notebook
from tests.variants import cases

OPTIONS = "-n 2 --devices-per-process 2 --platform cpu --framework keras"
SETUP = f"""{DISTRIBUTIONS}
distribute(data_parallel())

def new_model():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model

def losses():
    return new_model().fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0).history["loss"]

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
FIT = "model.fit(x, y, epochs={epochs}, batch_size=8, verbose=0, callbacks=[{callbacks}])"


@pytest.fixture
def trains(notebook: Notebook) -> Notebook:
    """Each test begins with a new model, and the losses of the first are there again after the one before."""
    notebook.shows("%%dist\nmodel = new_model()\nprint(kept + 1, losses() == before)", "42 True")
    return notebook


def trains_as_before(notebook: Notebook) -> None:
    """After a repair Keras trains anew, and the processes agree on it through the new coordinator."""
    notebook.shows("%%dist\nprint(kept + 1, losses() == before)", "processes 0, 1   42 True")


@pytest.mark.parametrize("leaves", cases("Leaves", "LeavesBetweenEpochs"))
def test_the_others_are_freed_when_one_raises_in_the_middle_of_fit(
    trains: Notebook, leaves: str
) -> None:
    # Between two epochs Keras assigns its metrics, in which JAX compares the values of all processes.
    cell = FIT.format(epochs=3, callbacks=f"{leaves}()")
    failed = trains.fails(f"%%dist --grace 1\n{cell}", "RuntimeError: boom")
    # On a busy machine the grace period can end before it is seen to wait.
    assert re.search("process 0   interrupted (while waiting|in line)", failed.told)
    assert "stuck" not in failed.text + failed.traceback
    trains_as_before(trains)


def test_an_interrupt_ends_fit_on_all(trains: Notebook) -> None:
    cell = FIT.format(epochs=100_000, callbacks="")
    ended = trains.fails(f"%%dist --timeout 4\n{cell}", "CellTimeout")
    assert "stuck" not in ended.text + ended.traceback
    trains_as_before(trains)
    # Where one was a step further than the other, that step was lost, and it is said.
    if "lost:" not in ended.text:
        trains.good("%%dist\nmodel.fit(x, y, verbose=0)")


def test_fit_in_the_background_stops_before_the_same_batch_on_all(trains: Notebook) -> None:
    request, output = trains.background(
        "%%dist --no-wait\n"
        "count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))\n"
        "steps = []\n"
        "begin = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: print('begins'))\n"
        + FIT.format(epochs=100_000, callbacks="count, begin"),
        "begins",
    )
    trains.shows("%dist_interrupt --stop-at-step", "before the same step on processes 0, 1")
    trains.collect(request, until=r"ended after .*: processes 0, 1 stopped before step \d+")
    assert "repaired" not in output.text
    same = trains.good("%dist len(steps), losses() == before").text
    assert re.fullmatch(r"processes 0, 1   \(\d+, True\)", same), same
