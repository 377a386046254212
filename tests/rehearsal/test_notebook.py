"""The notebook that plans, rehearses and then trains, from top to bottom."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest

from tests.integration.executed import NOTEBOOKS, executed, failed, tagged, text_of

NOTEBOOK = NOTEBOOKS / "06_rehearse.ipynb"
CELL_SECONDS = 1500
"""For the compiler, on a machine with other work."""

pytestmark = pytest.mark.timeout(4 * CELL_SECONDS)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The executed notebook, cells by id; an error in a cell that must not fail is the test's."""
    folder = tmp_path_factory.mktemp("rehearse")
    return executed(NOTEBOOK, folder=folder, cell_timeout_s=CELL_SECONDS)


def step_in(shown: str) -> str:
    """What is shown of the program of `step`."""
    return shown[shown.index("jit_step") :]


def moved(shown: str) -> list[list[str]]:
    """The rows of collectives, in words."""
    kinds = r"(?:all-|reduce-scatter|collective-permute)"
    return [line.split() for line in shown.splitlines() if re.match(kinds, line)]


def test_the_cell_in_the_session_is_the_one_that_was_rehearsed() -> None:
    sources = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
    assert sources["live"] == sources["fixed"].replace("%%dist_rehearse", "%%dist")
    wrong, fixed = (sources[name].splitlines() for name in ("refused", "fixed"))
    other = [line for line in fixed[2:] if line not in wrong]
    assert len(other) == 1 and "with_sharding_constraint" in other[0]


def test_only_the_step_that_does_not_fit_may_fail(cells: dict[str, Any]) -> None:
    assert failed(cells) <= tagged(cells) == {"refused"}


def test_the_first_plan_does_not_fit_and_names_the_array_without_a_spec(
    cells: dict[str, Any],
) -> None:
    shown = "\n".join(output.data["text/plain"] for output in cells["plan"].outputs)
    assert "v5e:16x16, 256 chips, 16 GB per device, mesh data=16 × model=16" in shown
    assert "16.2 GB of 16 GB per device, 101 %: it does not fit" in shown
    (whole,) = [line for line in shown.splitlines() if line.startswith("·  ")]
    assert whole.split()[1] == "params['blocks']['down']"
    assert whole.split()[-4:] == ["none", "16", "GB", "256×"]


def test_the_plan_with_the_rule_that_was_meant_fits(cells: dict[str, Any]) -> None:
    shown = text_of(cells["plan-again"])
    # 28 G numbers of 2 bytes over 256 devices.
    assert "8 arrays, 56 GB; needs 224 MB of 16 GB per device" in shown
    assert "does not fit" not in shown and "\n·" not in shown


def test_the_step_is_refused_by_the_compiler(cells: dict[str, Any]) -> None:
    shown = text_of(cells["refused"])
    assert "jit_step does not fit" in shown
    assert "RESOURCE_EXHAUSTED" in shown


def test_with_a_small_batch_the_values_show_that_each_device_has_all_rows(
    cells: dict[str, Any],
) -> None:
    shown = step_in(text_of(cells["small-batch"]))
    assert shown.startswith("jit_step: fits")
    (largest,) = re.findall(r"largest values\n +(.+)", shown)
    assert largest.split()[:3] == ["1", "GB", "bf16[32,16,2048,512]"]
    along = {(row[0], row[1], row[-1]) for row in moved(shown) if "32" in row}
    assert ("all-reduce", "data", "transformer.py:14") in along


def test_with_the_spec_it_fits_and_each_device_has_its_own_rows(cells: dict[str, Any]) -> None:
    shown = step_in(text_of(cells["fixed"]))
    assert shown.startswith("jit_step: fits")
    (largest,) = re.findall(r"largest values\n +(.+)", shown)
    assert largest.split()[:3] == ["8", "GB", "bf16[32,8,2048,8192]"]
    # 8 rows of 2048 × 8192 numbers of 2 bytes, after attention and after the MLP, in each of 32 blocks.
    adds = [row for row in moved(shown) if row[:2] == ["all-reduce", "model"] and "forward" in row]
    assert [row[2:] for row in adds if row[3] == "MB"] == [
        ["256", "MB", "32", "forward", "transformer.py:17"],
        ["256", "MB", "32", "forward", "transformer.py:18"],
    ]
    assert shown.rstrip().endswith("loss <float32[] P() without a value>")


def test_the_session_trains_with_the_same_cell(cells: dict[str, Any]) -> None:
    assert "4 processes on this machine, 8 cpu devices" in text_of(cells["start"])
    (loss,) = re.findall(r"processes 0–3   loss (\d\.\d+)", text_of(cells["live"]))
    # That of a guess among 256 words.
    assert abs(float(loss) - 5.545) < 0.1
    ((first, last),) = re.findall(r"loss (\d\.\d+) → (\d\.\d+)", text_of(cells["train"]))
    assert first == loss and float(last) < float(first)


def test_what_the_sessions_step_sends_is_explained(cells: dict[str, Any]) -> None:
    whole = text_of(cells["explain"])
    shown = step_in(whole)
    assert shown.startswith("jit_step: ") and "another program" not in whole
    # 32 rows of 32 × 64 numbers, in float32, in which CPUs add up.
    assert ["all-reduce", "model", "256", "KB", "2"] in [row[:5] for row in moved(shown)]
