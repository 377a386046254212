"""The notebook about tf.distribute, from top to bottom, in a kernel as JupyterLab runs it."""

from __future__ import annotations

import re

import pytest

from tests.integration.executed import NOTEBOOKS, executed, text_of

NOTEBOOK = NOTEBOOKS / "03_tf_distribute.ipynb"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each cell shows, by id; an error in a cell that must not fail is the test's."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = executed(NOTEBOOK, folder=folder, without=("TF_CPP_",))
    return {name: text_of(cell) for name, cell in cells.items() if cell.cell_type == "code"}


def number(text: str, label: str) -> float:
    found = re.search(rf"{label} (\d+\.\d+)", text)
    assert found, text
    return float(found[1])


def test_t1_one_process_trains_on_two_replicas(shown: dict[str, str]) -> None:
    assert "MirroredStrategy with 2 cpu" in shown["mirrored-init"]
    assert number(shown["mirrored-fit"], "test accuracy") > 0.85
    assert "sequential/conv2d/kernel" in shown["mirrored-layout"]
    assert "replica=2" in shown["mirrored-mesh"]


def test_t4_each_process_has_its_task(shown: dict[str, str]) -> None:
    assert (
        "MultiWorkerMirroredStrategy with 2 cpu replicas and 1 evaluator" in shown["workers-init"]
    )
    assert "listens on every interface" in shown["workers-init"]
    config = shown["workers-config"]
    assert "{'type': 'worker', 'index': 1} 2 replicas in sync" in config
    assert "{'type': 'evaluator', 'index': 0} 1 replicas in sync" in config


def test_t5_only_the_chief_s_files_are_kept(shown: dict[str, str]) -> None:
    fitted = shown["workers-fit"]
    assert "'epoch-03.keras'" in fitted
    assert "'batch.weights.h5'" in fitted


def test_t6_training_goes_on_after_a_worker_was_killed(shown: dict[str, str]) -> None:
    assert "killed by signal 9 (SIGKILL)" in shown["fault"]
    assert "%dist_recover" in shown["fault"]
    assert "Process 1 was replaced" in shown["recover-run"]
    assert "Processes 0, 2 kept their variables" in shown["recover-run"]
    assert "epochs 4 to 6: loss" in shown["resume-fit"]
    assert number(shown["resume-fit"], "loss") < number(shown["workers-fit"], "loss")


def test_t7_the_evaluator_s_results_stand_beside_it(shown: dict[str, str]) -> None:
    assert re.search(r"evaluate, checkpoint ckpt-\d+ .*accuracy", shown["evaluator-status"])
    assert re.search(r"ckpt-\d+: test accuracy 0\.\d+", shown["evaluation"])


def test_t9_the_chief_has_written_tensorboard_s_logs(shown: dict[str, str]) -> None:
    assert "'train'" in shown["tensorboard-logs"]
