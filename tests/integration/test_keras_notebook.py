"""The notebook about Keras' distribution, from top to bottom, as JupyterLab runs it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.executed import NOTEBOOKS, executed, failed, tagged, text_of
from tests.integration.notebook import ANSI

NOTEBOOK = NOTEBOOKS / "02_keras_distribution.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The executed notebook, cells by id; an error in a cell that must not fail is the test's."""
    return executed(NOTEBOOK, folder=tmp_path_factory.mktemp("keras"))


def test_only_the_trap_fails_and_says_what_to_do(cells: dict[str, Any]) -> None:
    assert failed(cells) == tagged(cells) == {"trap"}
    raised = ANSI.sub("", "\n".join(cells["trap"].outputs[-1].traceback))
    for value in ("AgreementError", "12 steps", "10 steps", "steps_per_epoch=10"):
        assert value in raised


def test_both_distributions_learn_the_same(cells: dict[str, Any]) -> None:
    # A line of the code, which shows where a process is, has no number there.
    losses = r"loss (\d\S*) → (\d\S*)"
    found = [re.findall(losses, text_of(cells[name]))[0] for name in ("dp", "train")]
    first, second = (tuple(map(float, pair)) for pair in found)
    assert first == pytest.approx(second, abs=2e-3)
    assert first[1] < 0.2 < first[0]


def test_the_set_distribution_is_shown(cells: dict[str, Any]) -> None:
    shown = text_of(cells["dp-view"])
    # The picture follows the session: between two later cells it may have become that of the next distribution.
    if "mesh batch=2 × model=2" not in shown:
        assert "distribution DataParallel  mesh batch=4" in shown
        assert "auto-sharding off" in shown
    else:
        assert "distribution ModelParallel" in shown


def test_the_rule_that_misses_is_shown_and_then_found(cells: dict[str, Any]) -> None:
    missed = text_of(cells["mp-missed"])
    assert re.search(r"rule that matches nothing:\s+logits/kernel", missed), missed
    fixed = text_of(cells["mp-layout"])
    assert "matches nothing" not in fixed
    found = r"logits/kernel +f32\[256, 10\] +trainable +\.\*logits/kernel +P\('model', None\)"
    assert re.search(found, fixed), fixed


def test_the_output_is_whole_and_the_checkpoint_goes_into_another_distribution(
    cells: dict[str, Any],
) -> None:
    assert "(256, 10)" in text_of(cells["predict"])
    restored = text_of(cells["restore"])
    assert "epoch 8" in restored
    differs = re.search(r"differs by (\S+) at most", restored)
    assert differs
    assert float(differs[1]) < 1e-4
    pulled = text_of(cells["pull"])
    accuracy = re.search(r"\(256, 10\), .*?(0\.\d+)", pulled)
    assert accuracy, pulled
    assert float(accuracy[1]) > 0.9
