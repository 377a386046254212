"""What hangs or breaks with Keras on several processes is refused in words, and the session goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.notebook import Notebook
from tests.integration.test_faults import SOONER, engine_pid

SETUP = """%%dist
import os, time
import jax, keras
import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
me, count = jax.process_index(), jax.process_count()
x = (digits.data[:768] / 16).astype("float32")[me::count]
y = digits.target[:768].astype("int32")[me::count]

def data_parallel(**options):
    keras.distribution.set_distribution(keras.distribution.DataParallel(**options))

def model_parallel(shape):
    mesh = keras.distribution.DeviceMesh(shape, ["batch", "model"], keras.distribution.list_devices())
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = (None, "model")
    keras.distribution.set_distribution(
        keras.distribution.ModelParallel(layout_map=layout, auto_shard_dataset=False))

def new_model():
    # A model of one process alone leaves its random numbers ahead of the others'.
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(12)]
    model = keras.Sequential([keras.layers.Input((64,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model

data_parallel(auto_shard_dataset=False)
model = new_model()
model.fit(x, y, batch_size=32, verbose=0);
"""
NOTHING = "Nothing was started."


def start(notebook: Notebook, processes: int, devices: int) -> None:
    notebook.good("%load_ext nbdist")
    notebook.good(
        f"%dist_init -n {processes} --devices-per-process {devices} --platform cpu --framework keras"
    )
    notebook.good(SETUP)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("traps")) as found:
        start(found, 2, 2)
        yield found


@pytest.fixture
def notebook(kernel: Notebook) -> Iterator[Notebook]:
    """A session in which all processes train together, before and after the test."""
    yield kernel
    after = kernel.good(
        "%%dist\ndata_parallel(auto_shard_dataset=False)\n"
        "print('loss', round(model.fit(x, y, batch_size=32, verbose=0).history['loss'][0], 6))"
    ).text
    assert "out of step" not in after
    assert after.count("loss ") == 1, "processes train on different models"


def both(traceback: str) -> bool:
    """Whether both processes raised the same error."""
    return bool(re.search(r"^processes 0, 1$", traceback, re.M))


def test_numpy_with_auto_sharding_is_refused_with_both_ways_out(notebook: Notebook) -> None:
    shown = notebook.bad("%%dist\ndata_parallel()\nnew_model().fit(x, y, verbose=0)").traceback
    assert both(shown)
    assert "InputError: fit got x as numpy.ndarray" in shown
    assert "auto_shard_dataset=True" in shown
    assert "auto_shard_dataset=False" in shown
    assert "x[jax.process_index()::2]" in shown
    assert "tf.data.Dataset of all rows" in shown


def test_rows_that_every_process_gives_are_said(notebook: Notebook) -> None:
    given = "data_parallel(auto_shard_dataset=False)\nnew_model().fit({}, verbose=0);"
    own = notebook.good(f"%%dist\n{given.format('x, y')}")
    assert "times in an epoch" not in own.text
    same = notebook.good(f"%%dist\n{given.format('np.ones((64, 64)), np.zeros(64)')}").text
    assert same.count("the same x on processes 0, 1, so it trains with each row 2 times") == 1
    assert re.search(r"cell \d+, line 3: UserWarning: fit got", same)


def test_a_generator_with_auto_sharding_is_refused_too(notebook: Notebook) -> None:
    batches = "((x[:32], y[:32]) for _ in range(3))"
    shown = notebook.bad(
        f"%%dist\ndata_parallel()\nnew_model().fit({batches}, steps_per_epoch=3)"
    ).traceback
    assert both(shown)
    assert "fit got x as generator" in shown


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_a_batch_that_does_not_divide_is_refused_on_every_process(
    notebook: Notebook, method: str
) -> None:
    shown = notebook.bad(f"%%dist\nmodel.{method}(x, y, batch_size=33, verbose=0)").traceback
    assert both(shown)
    assert f"InputError: {method} with batch_size=33 cannot split a step of 33 rows" in shown
    assert "the 2 places this process has of the 4 on mesh axis 'batch'" in shown
    assert "batch_size=32 or 34" in shown


def test_a_last_batch_that_does_not_divide_is_refused_on_every_process(notebook: Notebook) -> None:
    shown = notebook.bad("%%dist\nmodel.fit(x[:101], y[:101], batch_size=32, verbose=0)").traceback
    assert both(shown)
    assert "with 101 rows and batch_size=32 leaves 5 in the last step" in shown
    assert "100 or 102 rows on this process, such as x[:100]" in shown


def test_a_validation_batch_that_does_not_divide_is_refused(notebook: Notebook) -> None:
    shown = notebook.bad(
        "%%dist\nmodel.fit(x, y, batch_size=32, verbose=0, validation_data=(x[:31], y[:31]))"
    ).traceback
    assert both(shown)
    assert "validation in fit with 31 rows" in shown
    assert "30 or 32 rows" in shown


def test_rows_that_only_one_process_cannot_split_stop_the_others_too(notebook: Notebook) -> None:
    shown = notebook.bad(
        "%%dist\nn = 100 + me\nmodel.fit(x[:n], y[:n], batch_size=32, verbose=0)"
    ).traceback
    assert "AgreementError: process 1 does not call fit: fit with 101 rows" in shown


def test_unequal_step_counts_are_refused_with_both_numbers(notebook: Notebook) -> None:
    shown = notebook.bad(
        "%%dist\nn = len(x) - 64 * me\nmodel.fit(x[:n], y[:n], batch_size=32, verbose=0)"
    ).traceback
    assert both(shown)
    assert "12 steps an epoch on process 0 and 10 steps an epoch on process 1" in shown
    assert "steps_per_epoch=10" in shown
    notebook.good("%%dist\nmodel.fit(x[:n], y[:n], batch_size=32, verbose=0, steps_per_epoch=10);")


def test_unequal_lengths_of_a_pydataset_are_refused(notebook: Notebook) -> None:
    notebook.good(
        "%%dist\nclass Rows(keras.utils.PyDataset):\n"
        "    def __len__(self):\n        return 4 + me\n"
        "    def __getitem__(self, i):\n        return x[:32], y[:32]"
    )
    shown = notebook.bad("%%dist\nmodel.fit(Rows(), verbose=0)").traceback
    assert both(shown)
    assert "4 steps an epoch on process 0 and 5 steps an epoch on process 1" in shown


def test_unequal_epochs_are_refused(notebook: Notebook) -> None:
    shown = notebook.bad(
        "%%dist\nmodel.fit(x, y, batch_size=32, epochs=1 + me, verbose=0)"
    ).traceback
    assert "epochs up to 1 on process 0 and epochs up to 2 on process 1" in shown


@pytest.mark.parametrize(
    "call",
    ["fit(x, y, batch_size=32, verbose=0)", "evaluate(x, y, batch_size=32)", "save('one.keras')"],
)
def test_a_call_on_one_process_only_is_refused_when_the_other_has_finished(
    notebook: Notebook, call: str
) -> None:
    output = notebook.bad(f"%%dist\nif me == 0:\n    model.{call}")
    method = call.partition("(")[0]
    said = rf"process 1 finished this cell without calling {method}"
    assert re.search(said, output.traceback), output.traceback
    assert NOTHING in output.traceback
    assert "process 1   finished the cell" in output.traceback
    assert output.seconds < 30


def test_a_process_that_raises_before_fit_frees_the_one_that_waits(notebook: Notebook) -> None:
    output = notebook.bad(
        "%%dist --grace 60\nif me == 1:\n    raise ValueError('empty batch')\n"
        "model.fit(x, y, batch_size=32, verbose=0)"
    )
    assert output.seconds < 30
    assert "processes" not in output.traceback.splitlines()[0]
    assert "process 1" in output.traceback.splitlines()[0]
    said = r"process 0   AgreementError: process 1 raised ValueError: empty batch"
    assert re.search(said, output.traceback), output.traceback


def test_a_cell_sent_to_some_processes_only_is_refused_at_once(notebook: Notebook) -> None:
    shown = notebook.bad("%%dist --on 0\nmodel.fit(x, y, batch_size=32, verbose=0)").traceback
    assert "fit needs processes 0, 1" in shown
    assert "this cell runs on process 0 only" in shown
    notebook.good(
        "%%dist --on 0\nkeras.distribution.set_distribution(None)\n"
        "new_model().fit(x[:31], y[:31], verbose=0);"
    )


def test_different_calls_are_refused_with_both_names(notebook: Notebook) -> None:
    shown = notebook.bad(
        "%%dist\n(model.fit if me else model.evaluate)(x, y, batch_size=32, verbose=0)"
    ).traceback
    assert both(shown)
    assert "process 0 calls evaluate, process 1 calls fit" in shown


def test_different_distributions_are_refused(notebook: Notebook) -> None:
    notebook.good("%%dist\nmodel_parallel((2, 2))\nother = new_model()")
    shown = notebook.bad(
        "%%dist\nif me == 0:\n    data_parallel(auto_shard_dataset=False)\n"
        "other.fit(x, y, batch_size=32, verbose=0)"
    ).traceback
    assert both(shown)
    assert "DataParallel batch=4 on process 0" in shown
    assert "ModelParallel batch=2 × model=2 on process 1" in shown


def test_a_fit_without_any_distribution_is_named_to_the_one_that_waits(notebook: Notebook) -> None:
    shown = notebook.bad(
        "%%dist\nif me == 1:\n    keras.distribution.set_distribution(None)\n    model = new_model()\n"
        "model.fit(x, y, batch_size=32, verbose=0)\ndel model",
    ).traceback
    assert "its fit ran with no distribution set" in shown
    notebook.good("%%dist\ndata_parallel(auto_shard_dataset=False)\nmodel = new_model()")


@pytest.mark.parametrize(
    "callback", ["ModelCheckpoint('shared.keras')", "BackupAndRestore('shared')"]
)
def test_a_checkpoint_path_that_processes_share_is_refused(
    notebook: Notebook, callback: str
) -> None:
    shown = notebook.bad(
        f"%%dist\nmodel.fit(x, y, batch_size=32, verbose=0, callbacks=[keras.callbacks.{callback}])"
    ).traceback
    assert both(shown)
    assert "fit on processes 0, 1 would write" in shown
    assert "would write the same path /" in shown
    assert "nbdist.keras.Checkpoint(path)" in shown


def test_a_checkpoint_path_for_each_process_is_not_refused(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.good(
        f"%%dist\nown = keras.callbacks.ModelCheckpoint(f'{tmp_path}/{{me}}.keras')\n"
        "model.fit(x, y, batch_size=32, verbose=0, callbacks=[own]);"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.keras", "1.keras"]


@pytest.mark.parametrize("call", ["save('shared.keras')", "save_weights('shared.weights.h5')"])
def test_one_path_saved_by_all_processes_is_refused(notebook: Notebook, call: str) -> None:
    shown = notebook.bad(f"%%dist\nmodel.{call}").traceback
    assert both(shown)
    assert "would write the same path" in shown
    assert "nbdist.keras.save(model, path)" in shown


def test_saving_pieces_of_other_processes_is_refused(notebook: Notebook) -> None:
    shown = notebook.bad(
        "%%dist\nmodel_parallel((1, 4))\nnew_model().save(f'own-{me}.keras')"
    ).traceback
    assert both(shown)
    assert re.search(r"save cannot read variable 'sequential_?\d*/dense_?\d*/kernel'", shown), shown


def test_predict_is_refused_before_it_computes_what_it_cannot_fetch(notebook: Notebook) -> None:
    shown = notebook.bad("%%dist\nmodel.predict(x)").traceback
    assert both(shown)
    assert "nbdist.keras.predict(model, x)" in shown


def test_many_steps_that_nobody_waits_for_come_to_an_end(notebook: Notebook) -> None:
    # Two devices in each process: XLA on CPU would block itself after 32 steps in flight.
    notebook.good(
        "%%dist\nmodel.fit(x, y, batch_size=4, epochs=2, verbose=0)\n"
        "model.evaluate(x, y, batch_size=4, verbose=0)",
        timeout_s=60,
    )


def test_without_a_distribution_every_process_trains_for_itself(notebook: Notebook) -> None:
    notebook.good(
        "%%dist\nkeras.distribution.set_distribution(None)\n"
        "if me == 0:\n    new_model().fit(x[:31], y[:31], batch_size=7, verbose=0)"
    )


def test_calls_in_many_cells_leave_one_short_text_for_each_process(notebook: Notebook) -> None:
    for _ in range(3):
        notebook.good(
            "%%dist\nfor _ in range(3):\n    model.evaluate(x, y, batch_size=32, verbose=0)"
        )
    entries = notebook.good(
        "%%dist --on 0\nfrom jax._src.distributed import global_state\n"
        "found = global_state.client.key_value_dir_get('nbdist/calls')\n"
        "print(len(found), max(len(text) for _, text in found) < 4000)"
    ).text
    assert "2 True" in entries


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("four")) as found:
        start(found, 4, 1)
        yield found


def test_of_four_processes_those_that_wait_all_hear_of_the_one_that_left(four: Notebook) -> None:
    shown = four.bad("%%dist\nif me != 2:\n    model.fit(x, y, batch_size=32, verbose=0)").traceback
    assert shown.startswith("processes 0, 1, 3\n")
    assert re.search(r"process 2 finished this cell without calling fit", shown)
    shown = four.bad(
        "%%dist\nn = 64 if me == 3 else 96\nmodel.fit(x[:n], y[:n], batch_size=32, verbose=0)"
    ).traceback
    assert "3 steps an epoch on processes 0–2 and 2 steps an epoch on process 3" in shown
    assert "out of step" not in four.good("%%dist\nmodel.fit(x, y, batch_size=32, verbose=0);").text


def test_a_wait_is_reported_with_its_line_and_a_death_ends_it(four: Notebook) -> None:
    pid = engine_pid(four, 3)
    four.good(SOONER.format(wait=3.0))
    request = four.send(
        "%%dist\nif me == 3:\n    time.sleep(100)\nmodel.fit(x, y, batch_size=32, verbose=0)"
    )
    shown = four.collect(request, until=r"processes 0–2 .* at line 4", timeout_s=40)
    assert re.search(r"process 3 .* at line 3", shown.text), shown.text
    psutil.Process(pid).kill()
    output = four.collect(request)
    assert "process 3 " in output.traceback
    assert "SIGKILL" in output.traceback
    assert "interrupted while waiting" in output.traceback
