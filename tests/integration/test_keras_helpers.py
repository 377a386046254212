"""`nbdist.keras` on real processes, against a single process on the same data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.builders.keras_cells import DIGITS, DISTRIBUTIONS
from tests.integration.notebook import Notebook

OPTIONS = "-n 2 --devices-per-process 2 --platform cpu --framework keras"
SETUP = f"""{DISTRIBUTIONS}{DIGITS}
import os
import nbdist.keras

def own(array, batch=64):
    # Rows in the order in which a single process would take them, batch by batch.
    steps = array.reshape(-1, count, batch // count, *array.shape[1:])
    return steps[:, me].reshape(-1, *array.shape[1:])

def fit(model, **options):
    model.fit(own(x), own(y), batch_size=64 // count, shuffle=False, verbose=0, **options)
"""
TRAINED = """%%dist
distribute(model_parallel())
model = new_model()
each = nbdist.keras.Checkpoint(folder + '/checkpoints/{epoch}.weights.h5')
fit(model, epochs=2, callbacks=[each])
nbdist.keras.save(model, folder + '/whole.keras')
output = nbdist.keras.predict(model, x[:101], batch_size=30)
np.save(f'{folder}/predicted-{me}.npy', output)
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
def folder(notebook: Notebook, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the processes of `notebook` have trained and written."""
    found = tmp_path_factory.mktemp("written")
    notebook.good(f"%%dist\nfolder = {str(found)!r}")
    notebook.good(TRAINED, timeout_s=300)
    return found


@pytest.fixture(scope="module")
def alone(folder: Path) -> str:
    """What a single plain process, which knows nothing of nbdist, trains and reads."""
    done = subprocess.run(
        [sys.executable, "-c", DIGITS + ALONE, str(folder)],
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "differ"),
    # 101 rows: the last batch of 30 does not divide over two places.
    [("predicted-1.npy", 0), ("trained.npy", 1e-4), ("loaded.npy", 1e-4), ("whole.npy", 1e-4)],
)
def test_all_have_what_a_single_process_trains_loads_from_a_checkpoint_and_from_a_model(
    alone: str, folder: Path, name: str, differ: float
) -> None:
    here = np.load(folder / "predicted-0.npy")
    assert abs(np.load(folder / name) - here).max() <= differ
    assert alone == "24 24", "steps of both optimizers"


@pytest.mark.parametrize(
    "distribution", ["model_parallel(2, 2)", "model_parallel(1, 4)", "data_parallel()"]
)
def test_a_checkpoint_is_restored_into_any_distribution_with_its_optimizer(
    notebook: Notebook, folder: Path, distribution: str
) -> None:
    text = notebook.shows(
        f"%%dist\ndistribute({distribution})\nother = new_model()\n"
        "print('go on from', nbdist.keras.restore(other, nbdist.keras.latest(folder + '/checkpoints')))\n"
        "print('steps', int(other.optimizer.iterations.value))\n"
        # Sums over other parts are rounded elsewhere: by 4 units in the last place of the largest output, 5.7.
        "print('differs by', abs(nbdist.keras.predict(other, x[:101]) - output).max() > 1e-5)\n"
        "moments = [v for v in other.optimizer.variables if v.path.endswith('kernel_momentum')]\n"
        "print('moments', [str(v.value.sharding.spec) for v in moments])",
        "processes 0, 1",
        "go on from 2",
        "steps 24",
        "differs by False",
    )
    assert text.count("P(None, 'model')") == (0 if "data" in distribution else 2), text


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(
    notebook: Notebook, folder: Path
) -> None:
    notebook.shows(
        "%%dist\ndistribute(model_parallel())\nstraight = new_model()\nfit(straight, epochs=2)\n"
        "distribute(data_parallel())\nresumed = new_model()\n"
        "start = nbdist.keras.restore(resumed, folder + '/checkpoints/1.weights.h5')\n"
        "fit(resumed, epochs=2, initial_epoch=start)\n"
        "after = nbdist.keras.predict(resumed, x[:101])\n"
        "distribute(model_parallel())\n"
        "print(start, bool(abs(after - nbdist.keras.predict(straight, x[:101])).max() < 1e-4))",
        "processes 0, 1   1 True",
    )


def test_a_checkpoint_each_n_batches_keeps_the_newest(notebook: Notebook, folder: Path) -> None:
    notebook.shows(
        "%%dist\ndistribute(model_parallel())\nmany = new_model()\n"
        "often = nbdist.keras.Checkpoint(folder + '/often/{epoch}-{batch}.weights.h5', save_freq=5, keep=2)\n"
        "fit(many, epochs=2, callbacks=[often])\n"
        "print(nbdist.keras.latest(folder + '/often').rpartition('/')[2])\n"
        "print('epoch', nbdist.keras.restore(many, nbdist.keras.latest(folder + '/often')))",
        "2-8.weights.h5",
        "epoch 1",
    )
    left = sorted(path.name for path in (folder / "often").iterdir())
    assert left == ["2-3.weights.h5", "2-8.weights.h5"]


def test_a_write_that_fails_raises_on_all_and_leaves_the_old_checkpoint(
    notebook: Notebook, folder: Path
) -> None:
    before = (folder / "checkpoints" / "2.weights.h5").read_bytes()
    notebook.fails(
        "%%dist\ndistribute(model_parallel())\nimport h5py\nreal = h5py.File\n"
        "def full(path, mode='r', *a, **k):\n"
        "    if mode == 'r+':\n        raise OSError('No space left on device')\n"
        "    return real(path, mode, *a, **k)\n"
        "h5py.File = full\n"
        "try:\n    fit(model, epochs=3, initial_epoch=1, callbacks=[each])\n"
        "finally:\n    h5py.File = real",
        "OSError: No space left on device",
        "AgreementError: process 0 could not write",
    )
    assert (folder / "checkpoints" / "2.weights.h5").read_bytes() == before
    left = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert left == ["1.weights.h5", "2.weights.h5"]
    assert "out of step" not in notebook.good("%%dist\nfit(model)").text


@pytest.mark.parametrize(
    "call", ["predict(model, x)", "save(model, 'it.keras')", "restore(model, 'it')"]
)
def test_a_helper_on_one_process_only_is_refused(
    notebook: Notebook, folder: Path, call: str
) -> None:
    name = call.partition("(")[0]
    notebook.fails(
        f"%%dist\ndistribute(model_parallel())\nif me == 1:\n    nbdist.keras.{call}",
        f"without calling nbdist.keras.{name}",
    )
    assert "out of step" not in notebook.good("%%dist\nfit(model)").text


def test_restore_of_a_file_that_is_not_there_raises_on_all(
    notebook: Notebook, folder: Path
) -> None:
    missing = "nothing.weights.h5"
    cell = f"%%dist\nnbdist.keras.restore(model, {missing!r})"
    shown = notebook.fails(cell, "InputError: ", f"'{missing}'").traceback
    assert shown.startswith("processes 0, 1\n")


def test_only_process_0_gets_the_checkpoint_directory_itself(
    notebook: Notebook, folder: Path
) -> None:
    notebook.shows(
        "%%dist\nhere = nbdist.keras.checkpoint_dir(folder + '/logs')\n"
        "print(here == folder + '/logs', here == nbdist.keras.checkpoint_dir(folder + '/logs'))",
        "process 0   True True",
        "process 1   False True",
    )


# The last one: it ends the session that the other tests share.


def test_four_processes_read_what_two_have_written(notebook: Notebook, folder: Path) -> None:
    notebook.good("%dist_shutdown")
    notebook.good("%dist_init -n 4 --devices-per-process 1 --platform cpu --framework keras")
    notebook.good(f"%%dist\n{SETUP}")
    notebook.shows(
        f"%%dist\nfolder = {str(folder)!r}\ndistribute(model_parallel())\nmodel = new_model()\n"
        "print('from', nbdist.keras.restore(model, folder + '/checkpoints/2.weights.h5'))\n"
        "output = nbdist.keras.predict(model, x[:101])\n"
        "print(bool(abs(output - np.load(folder + '/predicted-0.npy')).max() < 1e-4))\n"
        "fit(model)",
        "processes 0–3",
        "from 2",
        "True",
    )
