"""The notebook that breaks its session in eight ways and goes on each time, from top to bottom."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest

from tests.integration.executed import NOTEBOOKS, executed, failed, lost_in, tagged, text_of

NOTEBOOK = NOTEBOOKS / "05_break_it.ipynb"
BREAKS = ["raise", "loop", "alone", "sleep", "on", "interrupt", "die"]
REPAIRED = r"(?:was repaired|was replaced) in [\d.]+ s\."
BACK = ["raise", "loop", "alone", "sleep", "on", "background", "die", "first"]
ASKED = "asked-after-"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The executed notebook, cells by id; after each break one more, which asks whether all are in step."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    asked = []
    for cell in notebook.cells:
        asked.append(cell)
        if cell.id in BREAKS:
            asked.append(nbformat.v4.new_code_cell("%dist_recover", id=ASKED + cell.id))
    notebook.cells = asked
    return executed(notebook, folder=tmp_path_factory.mktemp("break"))


def test_only_what_is_meant_to_fail_fails(cells: dict[str, Any]) -> None:
    assert failed(cells) == tagged(cells) == set(BREAKS) - {"interrupt"}


@pytest.mark.parametrize("broken", BREAKS)
def test_after_each_break_the_processes_are_proven_to_be_in_step(
    cells: dict[str, Any], broken: str
) -> None:
    assert text_of(cells[ASKED + broken]).strip().startswith("The processes are in step")


@pytest.mark.parametrize(
    ("broken", "lost"),
    [
        ("raise", None),
        ("loop", {"p", "o", "loss"}),
        ("alone", {"q"}),
        ("on", None),
        ("die", {"x", "y"}),
    ],
)
def test_a_repair_says_what_is_lost(
    cells: dict[str, Any], broken: str, lost: set[str] | None
) -> None:
    shown = text_of(cells[broken])
    assert re.search(REPAIRED, shown), shown
    if lost is None:
        assert "All variables are kept." in shown
        return
    assert lost_in(shown) == lost, shown


def test_those_that_die_are_replaced_process_0_as_any_other(cells: dict[str, Any]) -> None:
    assert re.search(
        "(?s)Process 1 was replaced .*Lost with process 1: x, y", text_of(cells["die"])
    )
    assert re.search("digits: .*@nbdist.on_recover", text_of(cells["die"]))
    assert re.search(
        "(?s)Process 0 was replaced .*Lost with process 0: x, y", text_of(cells["first-data"])
    )


def test_what_computes_nothing_and_what_all_evaluate_needs_no_repair(cells: dict[str, Any]) -> None:
    for name in ("sleep", "shards", "interrupt"):
        assert not re.search(REPAIRED, text_of(cells[name])), name
    assert "CellTimeout" in text_of(cells["sleep"])
    assert "replicated on 4 devices" in text_of(cells["shards"])


def test_training_goes_on_with_the_losses_of_an_undisturbed_run(cells: dict[str, Any]) -> None:
    after = ["calm", *(f"{n}-on" for n in BACK)]
    for steps, name in zip(range(8, 73, 8), after, strict=True):
        shown = text_of(cells[name])
        line = rf"{steps} steps, loss \d\.\d+, the same losses as without trouble"
        assert re.search(line, shown), f"{name}:\n{shown}"
    assert "all 72 losses equal: True; accuracy 0.9" in text_of(cells["end"])
    assert text_of(cells["pull"]) == "(True, 72)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("save", r"params, opt_state \(\S+ KB\) saved in .*after-72-steps"),
        ("half", "mesh data=4 becomes data=2"),
        ("half", r"1 process in place of 2 after [\d.]+ s\.\n"),
        # The loop that failed has left another number in `i` on each of them.
        ("half", r"\bi was copied from process \d\."),
        ("half-on", r"80 steps on 2 devices, loss 0\."),
        ("restore", "as it lay before"),
        ("restore-on", "the same 8 losses again: True"),
    ],
)
def test_half_the_processes_go_on_and_a_save_of_all_is_restored_there(
    cells: dict[str, Any], name: str, said: str
) -> None:
    assert re.search(said, text_of(cells[name])), text_of(cells[name])


def test_the_training_learns(cells: dict[str, Any]) -> None:
    found = re.search(r"loss (\S+) → (\S+), accuracy (\S+)", text_of(cells["calm"]))
    assert found
    first, last, accuracy = map(float, found.groups())
    assert last < 0.2 < 2 < first
    assert accuracy > 0.95
