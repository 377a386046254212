"""What cells have shown, for a page that was reloaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.contract.page import CellOutputs
from nbdist.view.output import CellOutput, NotebookRenderer, show_end
from nbdist.view.output.cursor import plain
from nbdist.view.output.renderer import MOST_CELLS, Shown, ShownCells


def texts(found: list[CellOutputs]) -> list[str]:
    return [plain(output["data"]["text/plain"]) for cell in found for output in cell.outputs]


def renderer(cells: ShownCells, cell: str, request: str = "r") -> NotebookRenderer:
    return NotebookRenderer(publish=lambda *_, **__: None, shown=cells.begin(cell, request))


def test_cells_that_run_are_answered_and_ended_ones_only_if_wanted(tmp_path: Path) -> None:
    cells = ShownCells()
    output = CellOutput(processes=(0,), folder=tmp_path)
    one = renderer(cells, "c1")
    output.stream(0, "stdout", "step 1\n")
    one.refresh(output, final=False)
    assert texts(cells.of([])) == ["process 0   step 1"]
    output.close()
    one.refresh(output, final=True)
    assert cells.of([]) == []
    (ended,) = cells.of(["c1", "unknown"])
    assert not ended.running and texts([ended]) == ["process 0   step 1"]


def test_an_error_stays_below_the_output_also_when_late_output_comes(tmp_path: Path) -> None:
    cells, shown = ShownCells(), []
    output = CellOutput(processes=(0,), folder=tmp_path)
    for raised in (True, False):
        one = NotebookRenderer(
            publish=lambda data, *_, **__: shown.append(data.get("text/plain")),
            shown=cells.begin("c1", f"r{raised}"),
        )
        one.fail(output, "ValueError: no data", raised=raised)
        one.refresh(output, final=True)
        assert texts(cells.of(["c1"])) == ["ValueError: no data"]
    assert len(shown) == 1  # raised, it is shown by whoever catches it


def test_a_second_run_of_a_cell_begins_anew_and_one_request_may_draw_twice() -> None:
    cells = ShownCells()
    cells.begin("c1", "r1").show([({"text/plain": "old"}, {})], final=True)
    own, late = cells.begin("c1", "r2"), cells.begin("c1", "r2")
    own.show([({"text/plain": "new"}, {}), ({}, {})], final=True)
    late.show([({"text/plain": "late"}, {})], final=False)
    assert texts(cells.of(["c1"])) == ["new", "late"]
    assert cells.of([]) == []


def test_memory_is_bounded_and_what_runs_stays() -> None:
    cells = ShownCells()
    cells.begin("runs", "r")
    for number in range(2 * MOST_CELLS):
        cells.begin(f"c{number}", "r").show([], final=True)
    assert [one.cell for one in cells.of(["c0"])] == ["runs"]
    assert isinstance(cells.begin("c0", "r"), Shown)


def test_a_renderer_of_a_persons_own_need_not_know_of_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Own:
        def refresh(self, output: CellOutput, *, final: bool = False) -> None:
            """Shows nothing."""

    output = CellOutput(processes=(0,), folder=tmp_path)
    show_end(Own(), output, "ValueError: raised", raised=True)
    show_end(Own(), output, "ValueError: of nobody", raised=False)
    assert capsys.readouterr().out == "ValueError: of nobody\n"
