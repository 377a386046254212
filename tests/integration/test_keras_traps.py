"""What hangs or breaks with Keras on several processes is refused in words, and the session goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.builders.keras_cells import DIGITS, DISTRIBUTIONS
from tests.integration.notebook import Notebook
from tests.integration.test_faults import SOONER, engine_pid

OPTIONS = "-n 2 --devices-per-process 2 --platform cpu --framework keras"
SETUP = f"""{DISTRIBUTIONS}{DIGITS}
import time
x, y = x[me::count], y[me::count]

class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 4 + me
    def __getitem__(self, i):
        return x[:32], y[:32]

distribute(data_parallel())
model = new_model("sgd")
def fit(rows=len(x), **options):
    return model.fit(x[:rows], y[:rows], **{{"batch_size": 32, "verbose": 0, **options}})
fit();
"""
BOTH = "processes 0, 1\n"
"""Where both have raised the same error."""


@pytest.fixture(autouse=True)
def all_train(notebook: Notebook) -> Iterator[None]:
    """All processes train together again after each test."""
    yield
    text = notebook.good(
        "%%dist\ndistribute(data_parallel())\nprint('loss', round(fit().history['loss'][0], 6))"
    ).text
    assert "out of step" not in text
    assert text.count("loss ") == 1, "different models"


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        (
            "distribute(data_parallel(auto_shard=True)); new_model().fit(x, y, verbose=0)",
            (
                "InputError: fit got x as numpy.ndarray",
                "auto_shard_dataset=True",
                "auto_shard_dataset=False",
                "x[jax.process_index()::2]",
                "tf.data.Dataset of all rows",
            ),
        ),
        (
            "distribute(data_parallel(auto_shard=True))\n"
            "new_model().fit(((x[:32], y[:32]) for _ in range(3)), steps_per_epoch=3)",
            ("fit got x as generator",),
        ),
        *(
            (
                f"model.{method}(x, y, batch_size=33, verbose=0)",
                (
                    f"InputError: {method} with batch_size=33 cannot split a step of 33 rows",
                    "the 2 places this process has of the 4 on mesh axis 'batch'",
                    "batch_size=32 or 34",
                ),
            )
            for method in ("fit", "evaluate")
        ),
        (
            "fit(101)",
            (
                "101 rows and batch_size=32 leaves 5 in the last step",
                "100 or 102 rows",
                "such as x[:100]",
            ),
        ),
        (
            "fit(validation_data=(x[:31], y[:31]))",
            ("validation in fit", "31 rows", "30 or 32 rows"),
        ),
        (
            "fit(len(x) - 64 * me)",
            ("12 steps an epoch on process 0", "10 steps an epoch on process 1", "per_epoch=10"),
        ),
        ("model.fit(Rows(), verbose=0)", ("4 steps an epoch on process 0", "5 steps an epoch on")),
        ("fit(epochs=1 + me)", ("epochs up to 1 on process 0", "epochs up to 2 on process 1")),
        (
            "(model.fit if me else model.evaluate)(x, y, batch_size=32, verbose=0)",
            ("process 0 calls evaluate, process 1 calls fit",),
        ),
        (
            "distribute(model_parallel()); other = new_model()\nif me == 0: distribute(data_parallel())\n"
            "other.fit(x, y, batch_size=32, verbose=0)",
            ("DataParallel batch=4 on process 0", "ModelParallel batch=2 × model=2 on process 1"),
        ),
        *(
            (
                f"fit(callbacks=[keras.callbacks.{callback}])",
                (
                    "fit on processes 0, 1",
                    "would write the same path /",
                    "nbdist.keras.Checkpoint(path)",
                ),
            )
            for callback in ("ModelCheckpoint('shared.keras')", "BackupAndRestore('shared')")
        ),
        *(
            (f"model.{call}", ("write the same path", "nbdist.keras.save(model, path)"))
            for call in ("save('shared.keras')", "save_weights('shared.weights.h5')")
        ),
        (
            "distribute(model_parallel(1, 4)); new_model().save(f'own-{me}.keras')",
            ("save cannot read variable 'sequential", "/kernel'"),
        ),
        # Before it computes what it cannot fetch.
        ("model.predict(x)", ("nbdist.keras.predict(model, x)",)),
    ],
)
def test_what_cannot_be_is_refused_on_every_process(
    notebook: Notebook, cell: str, values: tuple[str, ...]
) -> None:
    notebook.fails(f"%%dist\n{cell}", BOTH, *values)


def test_rows_that_every_process_gives_are_said(notebook: Notebook) -> None:
    assert (
        "times in an epoch" not in notebook.good("%%dist\nnew_model().fit(x, y, verbose=0);").text
    )
    same = notebook.good(
        "%%dist\ndistribute(data_parallel())\nnew_model().fit(np.ones((64, 64)), np.zeros(64), verbose=0);"
    ).text
    assert same.count("each row 2 times") == 1
    assert re.search(r"cell \d+, line 3: UserWarning: fit got", same)


def test_rows_that_only_one_process_cannot_split_stop_the_others_too(notebook: Notebook) -> None:
    notebook.fails(
        "%%dist\nfit(100 + me)", "AgreementError: process 1 does not call fit", "101 rows"
    )


@pytest.mark.parametrize(
    "call",
    ["fit(x, y, batch_size=32, verbose=0)", "evaluate(x, y, batch_size=32)", "save('one.keras')"],
)
def test_a_call_on_one_process_only_is_refused_when_the_other_has_finished(
    notebook: Notebook, call: str
) -> None:
    output = notebook.fails(
        f"%%dist\nif me == 0:\n    model.{call}",
        f"process 1 finished this cell without calling {call.partition('(')[0]}",
        "Nothing was started.",
        "process 1   finished the cell",
    )
    assert output.seconds < 30


def test_a_process_that_raises_before_fit_frees_the_one_that_waits(notebook: Notebook) -> None:
    output = notebook.fails(
        "%%dist --grace 60\nif me == 1:\n    raise ValueError('empty batch')\nfit()",
        "process 0   AgreementError: process 1 raised ValueError: empty batch",
    )
    assert output.seconds < 30
    first = output.traceback.splitlines()[0]
    assert "process 1" in first and "processes" not in first


def test_a_cell_sent_to_some_processes_only_is_refused_at_once(notebook: Notebook) -> None:
    notebook.fails("%%dist --on 0\nfit()", "fit needs processes 0, 1", "on process 0 only")
    notebook.good("%%dist --on 0\ndistribute(None)\nnew_model().fit(x[:31], y[:31], verbose=0);")


def test_a_fit_without_any_distribution_is_named_to_the_one_that_waits(notebook: Notebook) -> None:
    notebook.fails(
        "%%dist\nif me == 1:\n    distribute(None)\n    model = new_model()\nfit()\ndel model",
        "its fit ran with no distribution set",
    )
    notebook.good("%%dist\ndistribute(data_parallel())\nmodel = new_model('sgd')")


def test_a_checkpoint_path_for_each_process_is_not_refused(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.good(
        f"%%dist\nown = keras.callbacks.ModelCheckpoint(f'{tmp_path}/{{me}}.keras')\nfit(callbacks=[own]);"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.keras", "1.keras"]


@pytest.mark.parametrize(
    "cell",
    [
        "fit(len(x) - 64 * me, steps_per_epoch=10);",
        # Two devices in each process: XLA on CPU would block itself after 32 steps in flight.
        "fit(batch_size=4, epochs=2); model.evaluate(x, y, batch_size=4, verbose=0)",
        # Every process for itself.
        "distribute(None)\nif me == 0: new_model().fit(x[:31], y[:31], batch_size=7, verbose=0)",
    ],
    ids=["as many steps", "many steps", "no distribution"],
)
def test_what_all_can_do_comes_to_its_end(notebook: Notebook, cell: str) -> None:
    notebook.good(f"%%dist\n{cell}", timeout_s=60)


def test_calls_in_many_cells_leave_one_short_text_for_each_process(notebook: Notebook) -> None:
    for _ in range(3):
        notebook.good(
            "%%dist\nfor _ in range(3):\n    model.evaluate(x, y, batch_size=32, verbose=0)"
        )
    notebook.shows(
        "%%dist --on 0\nfrom jax._src.distributed import global_state\n"
        "found = global_state.client.key_value_dir_get('nbdist/calls')\n"
        "print(len(found), max(len(text) for _, text in found) < 4000)",
        "2 True",
    )


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("four")) as found:
        found.good("%load_ext nbdist")
        found.good(
            f"%dist_init {OPTIONS}".replace("-n 2", "-n 4").replace("process 2", "process 1")
        )
        found.good(f"%%dist\n{SETUP}")
        yield found


def test_of_four_processes_those_that_wait_all_hear_of_the_one_that_left(four: Notebook) -> None:
    shown = four.fails("%%dist\nif me != 2:\n    fit()", "process 2 finished this cell without")
    assert shown.traceback.startswith("processes 0, 1, 3\n")
    four.fails(
        "%%dist\nfit(64 if me == 3 else 96)",
        "3 steps an epoch on processes 0–2 and 2 steps an epoch on process 3",
    )
    assert "out of step" not in four.good("%%dist\nfit();").text


def test_a_wait_is_reported_with_its_line_and_a_death_ends_it(four: Notebook) -> None:
    pid = engine_pid(four, 3)
    four.good(SOONER.format(wait=3.0))
    request, shown = four.follow(
        "%%dist\nif me == 3:\n    time.sleep(100)\nmodel.fit(x, y, batch_size=32, verbose=0)",
        r"processes 0–2 .* at line 4",
    )
    assert re.search(r"process 3 .* at line 3", shown.text), shown.text
    psutil.Process(pid).kill()
    four.collect(request).names("process 3 ", "SIGKILL", "interrupted while waiting")
