"""Rows K1 to K3 of Keras' distribution API, from a notebook, on real processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook
from tests.variants import cases

OPTIONS = "-n 2 --devices-per-process 2 --platform cpu --framework keras"
START = "%dist_init -n {n} --devices-per-process {k} --platform cpu --framework keras"
ONE_EACH = START.format(n=2, k=1)
JOINED = "%%dist\nimport jax, keras\nprint(jax.process_count(), jax.process_index())"


@pytest.mark.parametrize("count", cases(2, 4))
def test_k1_initialize_is_broadcast_with_each_process_s_own_id(
    renewed: Notebook, count: int
) -> None:
    renewed.shows(START.format(n=count, k=1), "keras 3.", "on jax 0.")
    renewed.shows(JOINED, *(f"{count} {i}" for i in range(count)))
    same = renewed.good("%%dist\nprint('seed', keras.random.randint((1,), 0, 10**6)[0])").text
    # Keras has agreed on one seed, so all print the same.
    assert same.count("seed") == 1


def test_k1_a_list_of_all_jobs_is_taken_and_its_first_is_the_coordinator(renewed: Notebook) -> None:
    renewed.good(f"{ONE_EACH} --job-addresses 127.0.0.1,127.0.0.1:9")
    renewed.good(JOINED)
    variable = "os.environ['KERAS_DISTRIBUTION_JOB_ADDRESSES']"
    renewed.shows(f"%%dist\nimport os\nprint({variable})", ",127.0.0.1:9")


def test_k1_a_second_call_says_that_it_is_already_done(notebook: Notebook) -> None:
    notebook.fails(
        "%%dist\nimport keras\nkeras.distribution.initialize()",
        "RuntimeError",
        "%dist_init has already called keras.distribution.initialize",
        "--no-initialize",
    )
    notebook.good(JOINED)


def test_k2_a_bare_initialize_finds_its_values_in_the_environment(renewed: Notebook) -> None:
    renewed.shows(f"{START.format(n=2, k=2)} --no-initialize", "not initialized")
    renewed.good("%%dist\nimport keras\nkeras.distribution.initialize()")
    renewed.shows(JOINED, "2 0", "2 1")
    listening = "os.environ['JAX_COORDINATOR_BIND_ADDRESS']"
    renewed.shows(f"%%dist --on 0\nimport os\nprint({listening})", "127.0.0.1:")


def test_k3_the_list_of_devices_is_the_view_s_in_order_and_names(notebook: Notebook) -> None:
    listed = "['cpu:0', 'cpu:1', 'cpu:2048', 'cpu:2049']"
    notebook.shows("%%dist\nimport keras\nprint(keras.distribution.list_devices())", listed)
    devices = "[f'{d.platform}:{d.id}' for d in nbdist.current().snapshot().devices]"
    notebook.shows(f"import nbdist\nprint({devices})", listed)


def test_keras_that_cannot_be_imported_is_named_with_host_and_what_to_type(
    renewed: Notebook, tmp_path: Path
) -> None:
    (tmp_path / "keras.py").write_text("raise ImportError('not here')\n")
    renewed.fails(
        f"{ONE_EACH} --env PYTHONPATH={tmp_path}",
        "processes 0, 1 (host ",
        "cannot import keras: ImportError: not here",
        "pip install 'nbdist[keras]'",
    )


def test_keras_with_another_back_end_already_is_refused_with_both(
    renewed: Notebook, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.pop('IMPORT_KERAS_EARLY', None):\n"
        "    wanted = os.environ.get('KERAS_BACKEND')\n"
        "    os.environ['KERAS_BACKEND'] = 'numpy'\n"
        "    import keras\n"
        "    os.environ['KERAS_BACKEND'] = wanted\n"
    )
    refused = renewed.bad(f"{ONE_EACH} --env PYTHONPATH={tmp_path} --env IMPORT_KERAS_EARLY=1")
    assert "Keras was imported with the numpy back end, and jax is asked for" in refused.traceback
    assert re.search(r"On process [01] \(host", refused.traceback)


def test_a_back_end_that_is_not_installed_is_named_with_what_to_type(renewed: Notebook) -> None:
    refused = f"{ONE_EACH} --backend tensorflow"
    renewed.fails(refused, "tensorflow is missing", "-m pip install tensorflow")
