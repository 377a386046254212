"""`nbdist.keras` on real processes, against a single process on the same data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook

MODEL = """
import os
import keras
import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
x = (digits.data[:768] / 16).astype("float32")
y = digits.target[:768].astype("int32")

def new_model():
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(12)]
    model = keras.Sequential([keras.layers.Input((64,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    return model
"""
SETUP = f"""%%dist
{MODEL}
import jax
import nbdist.keras
me, count = jax.process_index(), jax.process_count()

def data_parallel():
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))

def model_parallel(shape):
    mesh = keras.distribution.DeviceMesh(shape, ["batch", "model"], keras.distribution.list_devices())
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = (None, "model")
    keras.distribution.set_distribution(
        keras.distribution.ModelParallel(layout_map=layout, auto_shard_dataset=False))

def own(array, batch=64):
    # Rows in the order in which a single process would take them, batch by batch.
    steps = array.reshape(-1, count, batch // count, *array.shape[1:])
    return steps[:, me].reshape(-1, *array.shape[1:])

def fit(model, **options):
    model.fit(own(x), own(y), batch_size=64 // count, shuffle=False, verbose=0, **options)
"""
ALONE = """
import sys
first, second = new_model(), new_model()
first.fit(x, y, batch_size=64, epochs=2, shuffle=False, verbose=0)
np.save(sys.argv[1] + "/trained.npy", first.predict(x[:101], verbose=0))
second.optimizer.build(second.trainable_variables)
second.load_weights(sys.argv[1] + "/checkpoints/2.weights.h5")
np.save(sys.argv[1] + "/loaded.npy", second.predict(x[:101], verbose=0))
whole = keras.saving.load_model(sys.argv[1] + "/whole.keras")
np.save(sys.argv[1] + "/whole.npy", whole.predict(x[:101], verbose=0))
print(int(second.optimizer.iterations.value), int(whole.optimizer.iterations.value))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("helpers")


@pytest.fixture(scope="module")
def notebook(folder: Path) -> Iterator[Notebook]:
    with Notebook(folder=folder) as found:
        found.good("%load_ext nbdist")
        found.good("%dist_init -n 2 --devices-per-process 2 --platform cpu --framework keras")
        found.good(SETUP)
        found.good(
            f"%%dist\nfolder = {str(folder)!r}\nmodel_parallel((2, 2))\nmodel = new_model()\n"
            "each = nbdist.keras.Checkpoint(folder + '/checkpoints/{epoch}.weights.h5')\n"
            "fit(model, epochs=2, callbacks=[each])\n"
            "nbdist.keras.save(model, folder + '/whole.keras')\n"
            "output = nbdist.keras.predict(model, x[:101], batch_size=30)\n"
            "np.save(f'{folder}/predicted-{me}.npy', output)"
        )
        yield found


@pytest.fixture(scope="module")
def alone(notebook: Notebook, folder: Path) -> str:
    """What a single plain process, which knows nothing of nbdist, trains and reads."""
    done = subprocess.run(
        [sys.executable, "-c", MODEL + ALONE, str(folder)],
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def largest_difference(notebook: Notebook, name: str, other: str) -> float:
    text = notebook.good(
        f"import numpy as np\nprint(abs(np.load({name!r}) - np.load({other!r})).max())"
    ).text
    return float(text)


def test_predict_is_whole_on_every_process_and_equal_to_a_single_process(
    notebook: Notebook, alone: str, folder: Path
) -> None:
    assert largest_difference(notebook, "predicted-0.npy", "predicted-1.npy") == 0
    # 101 rows: the last batch of 30 does not divide over two places.
    assert largest_difference(notebook, "predicted-0.npy", "trained.npy") < 1e-4


def test_a_single_process_reads_the_checkpoint_with_load_weights(
    notebook: Notebook, alone: str
) -> None:
    assert largest_difference(notebook, "loaded.npy", "predicted-0.npy") < 1e-4
    assert alone.split()[0] == "24", "the optimizer's state is in it"


def test_a_single_process_loads_the_model_that_all_processes_saved(
    notebook: Notebook, alone: str
) -> None:
    assert largest_difference(notebook, "whole.npy", "predicted-0.npy") < 1e-4
    assert alone.split()[1] == "24"


@pytest.mark.parametrize(
    "distribution",
    ["model_parallel((2, 2))", "model_parallel((1, 4))", "data_parallel()"],
)
def test_a_checkpoint_is_restored_into_any_distribution_with_its_optimizer(
    notebook: Notebook, distribution: str
) -> None:
    text = notebook.good(
        f"%%dist\n{distribution}\nother = new_model()\n"
        "print('go on from', nbdist.keras.restore(other, nbdist.keras.latest(folder + '/checkpoints')))\n"
        "print('steps', int(other.optimizer.iterations.value))\n"
        "print('differs by', abs(nbdist.keras.predict(other, x[:101]) - output).max() > 1e-5)\n"
        "moments = [v for v in other.optimizer.variables if v.path.endswith('kernel_momentum')]\n"
        "print('moments', [str(v.value.sharding.spec) for v in moments])"
    ).text
    assert "processes 0, 1" in text, text
    assert "go on from 2" in text
    assert "steps 24" in text
    # Sums over other parts are rounded elsewhere: by 4 units in the last place of the largest output, 5.7, seen.
    assert "differs by False" in text
    split = "data" not in distribution
    assert text.count("P(None, 'model')") == (2 if split else 0), text


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(notebook: Notebook) -> None:
    text = notebook.good(
        "%%dist\nmodel_parallel((2, 2))\nstraight = new_model()\nfit(straight, epochs=2)\n"
        "data_parallel()\nresumed = new_model()\n"
        "start = nbdist.keras.restore(resumed, folder + '/checkpoints/1.weights.h5')\n"
        "fit(resumed, epochs=2, initial_epoch=start)\n"
        "after = nbdist.keras.predict(resumed, x[:101])\n"
        "model_parallel((2, 2))\n"
        "print(start, bool(abs(after - nbdist.keras.predict(straight, x[:101])).max() < 1e-4))"
    ).text
    assert "processes 0, 1   1 True" in text


def test_a_checkpoint_each_n_batches_keeps_the_newest(notebook: Notebook, folder: Path) -> None:
    text = notebook.good(
        "%%dist\nmodel_parallel((2, 2))\nmany = new_model()\n"
        "often = nbdist.keras.Checkpoint(folder + '/often/{epoch}-{batch}.weights.h5', save_freq=5, keep=2)\n"
        "fit(many, epochs=2, callbacks=[often])\n"
        "print(nbdist.keras.latest(folder + '/often').rpartition('/')[2])\n"
        "print('epoch', nbdist.keras.restore(many, nbdist.keras.latest(folder + '/often')))"
    ).text
    assert sorted(path.name for path in (folder / "often").iterdir()) == [
        "2-3.weights.h5",
        "2-8.weights.h5",
    ]
    assert "2-8.weights.h5" in text
    assert "epoch 1" in text


def test_a_write_that_fails_raises_on_all_and_leaves_the_old_checkpoint(
    notebook: Notebook, folder: Path
) -> None:
    before = (folder / "checkpoints" / "2.weights.h5").read_bytes()
    shown = notebook.bad(
        "%%dist\nmodel_parallel((2, 2))\nimport h5py\nreal = h5py.File\n"
        "def full(path, mode='r', *a, **k):\n"
        "    if mode == 'r+':\n        raise OSError('No space left on device')\n"
        "    return real(path, mode, *a, **k)\n"
        "h5py.File = full\n"
        "try:\n"
        "    fit(model, epochs=3, initial_epoch=1,\n"
        "        callbacks=[nbdist.keras.Checkpoint(folder + '/checkpoints/{epoch}.weights.h5')])\n"
        "finally:\n    h5py.File = real"
    ).traceback
    assert "OSError: No space left on device" in shown
    assert "AgreementError: process 0 could not write" in shown
    assert (folder / "checkpoints" / "2.weights.h5").read_bytes() == before
    left = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert left == ["1.weights.h5", "2.weights.h5"]
    assert "out of step" not in notebook.good("%%dist\nfit(model)").text


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("predict(model, x)", "finished this cell without calling nbdist.keras.predict"),
        ("save(model, 'one.keras')", "finished this cell without calling nbdist.keras.save"),
        ("restore(model, 'one')", "finished this cell without calling nbdist.keras.restore"),
    ],
)
def test_a_helper_on_one_process_only_is_refused(notebook: Notebook, call: str, said: str) -> None:
    shown = notebook.bad(
        f"%%dist\nmodel_parallel((2, 2))\nif me == 1:\n    nbdist.keras.{call}"
    ).traceback
    assert said in shown
    assert "out of step" not in notebook.good("%%dist\nfit(model)").text


def test_restore_of_a_file_that_is_not_there_raises_on_all(notebook: Notebook) -> None:
    shown = notebook.bad("%%dist\nnbdist.keras.restore(model, 'nothing.weights.h5')").traceback
    assert "InputError: There is no checkpoint 'nothing.weights.h5'" in shown
    assert shown.startswith("processes 0, 1\n")


def test_only_process_0_gets_the_checkpoint_directory_itself(
    notebook: Notebook, folder: Path
) -> None:
    text = notebook.good(
        "%%dist\nhere = nbdist.keras.checkpoint_dir(folder + '/logs')\n"
        "print(here == folder + '/logs', here == nbdist.keras.checkpoint_dir(folder + '/logs'))"
    ).text
    assert "process 0   True True" in text
    assert "process 1   False True" in text


def test_four_processes_read_what_two_have_written(notebook: Notebook, folder: Path) -> None:
    """Another number of processes; this ends the session that the other tests share."""
    notebook.good("%dist_shutdown")
    notebook.good("%dist_init -n 4 --devices-per-process 1 --platform cpu --framework keras")
    notebook.good(SETUP)
    text = notebook.good(
        f"%%dist\nfolder = {str(folder)!r}\nmodel_parallel((2, 2))\nmodel = new_model()\n"
        "print('from', nbdist.keras.restore(model, folder + '/checkpoints/2.weights.h5'))\n"
        "output = nbdist.keras.predict(model, x[:101])\n"
        "print(bool(abs(output - np.load(folder + '/predicted-0.npy')).max() < 1e-4))\n"
        "fit(model)"
    ).text
    assert "processes 0–3" in text
    assert "from 2" in text
    assert "True" in text
