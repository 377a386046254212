"""Rows K1 to K3 of Keras' distribution API, from a notebook, on real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook
from tests.variants import cases

START = "%dist_init -n {n} --devices-per-process {k} --platform cpu --framework keras"
DEVICES = """
import nbdist
print([f"{d.platform}:{d.id}" for d in nbdist.current().snapshot().devices])
"""
JOINED = """%%dist
import jax, keras
print(jax.process_count(), jax.process_index())
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Two processes of two devices, joined by Keras."""
    with Notebook(folder=tmp_path_factory.mktemp("two")) as found:
        found.good("%load_ext nbdist")
        found.good(START.format(n=2, k=2))
        yield found


@pytest.mark.parametrize("count", cases(2, 4))
def test_k1_initialize_is_broadcast_with_each_process_s_own_id(
    renewed: Notebook, count: int
) -> None:
    started = renewed.good(START.format(n=count, k=1)).text
    assert "keras 3." in started
    assert "on jax 0." in started
    shown = renewed.good(JOINED).text
    assert [f"{count} {i}" in shown for i in range(count)] == [True] * count
    same = renewed.good("%%dist\nprint('seed', keras.random.randint((1,), 0, 10**6)[0])").text
    assert same.count("seed") == 1  # Keras has agreed on one seed, so all print the same


def test_k1_a_list_of_all_jobs_is_taken_and_its_first_is_the_coordinator(renewed: Notebook) -> None:
    renewed.good(START.format(n=2, k=1) + " --job-addresses 127.0.0.1,127.0.0.1:9")
    renewed.good(JOINED)
    reported = renewed.good(
        "%%dist\nimport os\nprint(os.environ['KERAS_DISTRIBUTION_JOB_ADDRESSES'])"
    )
    assert ",127.0.0.1:9" in reported.text


def test_k1_a_second_call_says_that_it_is_already_done(two: Notebook) -> None:
    again = two.bad("%%dist\nimport keras\nkeras.distribution.initialize()")
    assert "RuntimeError" in again.traceback
    assert "%dist_init has already called keras.distribution.initialize" in again.traceback
    assert "--no-initialize" in again.traceback
    two.good(JOINED)


def test_k2_a_bare_initialize_finds_its_values_in_the_environment(renewed: Notebook) -> None:
    started = renewed.good(START.format(n=2, k=2) + " --no-initialize").text
    assert "not initialized" in started
    renewed.good("%%dist\nimport keras\nkeras.distribution.initialize()")
    shown = renewed.good(JOINED).text
    assert "2 0" in shown
    assert "2 1" in shown
    listening = renewed.good(
        "%%dist --on 0\nimport os\nprint(os.environ['JAX_COORDINATOR_BIND_ADDRESS'])"
    )
    assert "127.0.0.1:" in listening.text


def test_k3_the_list_of_devices_is_the_view_s_in_order_and_names(two: Notebook) -> None:
    said = two.good("%%dist\nimport keras\nprint(keras.distribution.list_devices())").text
    listed = "['cpu:0', 'cpu:1', 'cpu:2048', 'cpu:2049']"
    assert listed in said
    assert listed in two.good(DEVICES).text


def test_keras_that_cannot_be_imported_is_named_with_host_and_what_to_type(
    renewed: Notebook, tmp_path: Path
) -> None:
    (tmp_path / "keras.py").write_text("raise ImportError('not here')\n")
    refused = renewed.bad(START.format(n=2, k=1) + f" --env PYTHONPATH={tmp_path}")
    assert "processes 0, 1 (host " in refused.traceback
    assert "cannot import keras: ImportError: not here" in refused.traceback
    assert "pip install 'nbdist[keras]'" in refused.traceback


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
    refused = renewed.bad(
        START.format(n=2, k=1) + f" --env PYTHONPATH={tmp_path} --env IMPORT_KERAS_EARLY=1"
    )
    assert "Keras was imported with the numpy back end, and jax is asked for" in refused.traceback
    assert "On process 0 (host" in refused.traceback or "On process 1 (host" in refused.traceback


def test_a_back_end_that_is_not_installed_is_named_with_what_to_type(renewed: Notebook) -> None:
    refused = renewed.bad(START.format(n=2, k=1) + " --backend tensorflow")
    assert "tensorflow is missing" in refused.traceback
    assert "-m pip install tensorflow" in refused.traceback
