"""What `fit` and `evaluate` told last is noted, and neither returns or prints anything else for it."""

import contextlib
import io
import math
import threading

import keras
import numpy as np
import pytest

from nbdist.engine.frameworks.keras.observe import hook_callbacks, unhook_callbacks
from nbdist.engine.probe import activity
from tests.engine.keras_models import dense
from tests.engine.recording import recorded

X, Y = np.ones((16, 16), np.float32), np.ones((16, 8), np.float32)


@pytest.fixture
def hooked():
    hook_callbacks()
    yield
    unhook_callbacks()


@pytest.fixture
def model():
    keras.utils.set_random_seed(1)
    model = dense()
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def reported():
    (newest,) = activity.newest()
    return newest.what, {one.name: one.value for one in newest.metrics}


def test_the_last_epoch_of_fit_with_its_validation(hooked, model):
    history = model.fit(X, Y, epochs=3, verbose=0, validation_data=(X, Y)).history
    what, metrics = reported()
    assert what == "fit, epoch 3 of 3"
    assert metrics == {name: values[-1] for name, values in history.items()}
    assert set(metrics) == {"loss", "mae", "val_loss", "val_mae"}


def test_validation_inside_fit_is_not_taken_for_an_evaluation(hooked, model):
    met = []
    activity.note("before", {})

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            met.append(reported()[0])

    model.fit(X, Y, epochs=2, verbose=0, validation_data=(X, Y), callbacks=[Watch()])
    assert met == ["before", "fit, epoch 1 of 2"]


def test_an_evaluation(hooked, model):
    loss, mae = model.evaluate(X, Y, verbose=0)
    what, metrics = reported()
    assert what == "evaluate"
    assert metrics == pytest.approx({"loss": loss, "mae": mae})


def test_fit_and_evaluate_return_and_print_the_same(model):
    def run():
        keras.utils.set_random_seed(1)
        fresh = dense()
        fresh.compile("sgd", "mse")
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            history = fresh.fit(X, Y, epochs=2, verbose=2)
            loss = fresh.evaluate(X, Y, verbose=0)
        kinds = [type(one).__name__ for one in fresh.history.model.history.__dict__.values()]
        return history.history, history.params, loss, kinds, len(shown.getvalue().splitlines())

    without = run()
    hook_callbacks()
    try:
        assert run() == without
    finally:
        unhook_callbacks()


def test_unhooking_leaves_keras_as_it_was():
    before = dict(vars(keras.callbacks.CallbackList))
    hook_callbacks()
    hook_callbacks()
    assert dict(vars(keras.callbacks.CallbackList)) != before
    unhook_callbacks()
    assert dict(vars(keras.callbacks.CallbackList)) == before


def test_a_class_without_these_methods_is_left_alone(monkeypatch):
    class Empty:
        pass

    monkeypatch.setattr(keras.callbacks, "CallbackList", Empty)
    hook_callbacks()
    assert not hasattr(Empty, "on_epoch_end")


def test_a_note_from_any_thread_replaces_the_last_and_leaves_out_what_is_no_number():
    values = {"loss": 0.5, "steps": 3, "bad": math.nan, "text": "x", "flag": True, "array": X}
    thread = threading.Thread(target=activity.note, args=("evaluate, checkpoint ckpt-3", values))
    thread.start()
    thread.join()
    assert reported() == ("evaluate, checkpoint ckpt-3", {"loss": 0.5, "steps": 3.0})


def test_a_metric_of_many_numbers_is_left_out_and_does_not_fail(hooked, model):
    callbacks = keras.callbacks.CallbackList([], add_history=True, model=model, epochs=4)
    callbacks.on_train_begin()
    callbacks.on_epoch_end(1, {"loss": np.float32(2.0), "each": [1, 2]})
    assert reported() == ("fit, epoch 2 of 4", {"loss": 2.0})


def test_reports_tell_each_epoch_while_the_cell_trains(model):
    names = {"model": model, "X": X, "Y": Y, "keras": keras}
    source = (
        "class Wait(keras.callbacks.Callback):\n"
        "    def on_epoch_begin(self, epoch, logs=None):\n"
        "        if epoch: wait(f'fit, epoch {epoch} of 3')\n"
        "model.fit(X, Y, epochs=3, verbose=0, callbacks=[Wait()])\n"
    )
    with recorded(names) as seen:

        def said():
            return [one.what for report in seen.reports for one in report.progress or ()]

        names["wait"] = lambda what: seen.wait(lambda: what in said())
        seen.run(source)
        seen.wait(lambda: said()[-1] == "fit, epoch 3 of 3")


def test_an_evaluation_is_noted_under_the_name_it_is_given(hooked, model):
    with activity.evaluating("evaluate, checkpoint ckpt-3"):
        model.evaluate(X, Y, verbose=0)
    assert reported()[0] == "evaluate, checkpoint ckpt-3"
    model.evaluate(X, Y, verbose=0)
    assert reported()[0] == "evaluate"
