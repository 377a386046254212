"""Output that comes after a cell has ended: shown with the cell and the process it is from."""

from __future__ import annotations

import gc
import io
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.session.cells import late
from nbdist.session.cells.execution import Cell, Execution
from nbdist.session.cells.late import EarlierCells, LateOutput, late_name
from nbdist.view.output import CellOutput, NotebookRenderer, TerminalRenderer
from tests.waiting import WAIT_SECONDS, wait_for


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"msg_type": "stream", "content": {"name": name, "text": text}}


def display(text: str, *, update: bool = False) -> dict[str, Any]:
    kind = "update_display_data" if update else "display_data"
    data = {"text/plain": text, "text/html": f"<b>{text}</b>"}
    return {
        "msg_type": kind,
        "content": {"data": data, "metadata": {}, "transient": {"display_id": "d"}},
    }


class Shown:
    """A cell of three processes that has ended, in a terminal or in a notebook."""

    def __init__(
        self, folder: Path, *, notebook: bool = False, earlier: EarlierCells | None = None
    ) -> None:
        self.file = io.StringIO()
        self.displays: dict[str, Any] = {}
        make: Callable[..., Any]
        if notebook:
            make = lambda **options: NotebookRenderer(publish=self._publish, **options)  # noqa: E731
        else:
            make = lambda **options: TerminalRenderer(file=self.file, **options)  # noqa: E731
        self.output = CellOutput(processes=range(3), folder=folder / "cell")
        self.renderer = make()
        self.execution = Execution(
            Cell(number=7, code="pass"),
            targets=range(3),
            cluster=None,  # type: ignore[arg-type]
            hosts={},
            output=self.output,
            reports=None,  # type: ignore[arg-type]
        )
        self.late = LateOutput(
            7,
            output=self.output,
            folder=folder / "later",
            renderer=self.renderer,
            late_renderer=make(name=late_name(7)),
            earlier=earlier or EarlierCells(),
        )
        self.execution.late = self.late

    def _publish(self, data: Any, metadata: Any, *, transient: Any, update: bool) -> None:
        self.displays[transient["display_id"]] = dict(data)

    def end(self) -> None:
        self.output.close()
        self.renderer.refresh(self.output, final=True)
        self.late.open()

    @property
    def text(self) -> str:
        if self.displays:
            texts = [str(data.get("text/plain", "")) for data in self.displays.values()]
            plain = "\n".join(text for text in texts if text)
            return plain.replace("\x1b[38;2;118;118;118m", "").replace("\x1b[0m", "")
        return self.file.getvalue()

    def wait(self, text: str) -> None:
        wait_for(lambda: self.text == text)


@pytest.fixture(params=[False, True], ids=["terminal", "notebook"])
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> Shown:
    return Shown(tmp_path, notebook=request.param)


def test_a_line_that_comes_later_is_marked_with_cell_and_process(shown: Shown) -> None:
    shown.execution.receive(2, stream("in the cell\n"))
    shown.end()
    shown.execution.receive(2, stream("saved\n"))
    end = "\n" if not shown.displays else ""
    shown.wait(f"process 2   in the cell\ncell 7, process 2 (later)   saved{end}")


def test_what_all_print_later_is_shown_once_and_lines_without_an_end_as_well(
    tmp_path: Path,
) -> None:
    shown = Shown(tmp_path, notebook=True)
    shown.end()
    for process_id in range(3):
        shown.execution.receive(process_id, stream("saved"))
    shown.wait("cell 7, processes 0–2 (later)   saved")


def test_in_a_terminal_each_output_says_again_what_it_is_of(tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    shown.end()
    shown.execution.receive(1, stream("a\nb\n"))
    shown.wait("cell 7, process 1 (later)\na\nb\n")
    shown.execution.receive(1, stream("c\nd\n"))
    shown.wait("cell 7, process 1 (later)\na\nb\ncell 7, process 1 (later)\nc\nd\n")


def test_nothing_is_drawn_before_the_cells_own_output_is_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    shown = Shown(tmp_path)
    shown.output.close()
    shown.execution.receive(0, stream("early\n"))
    time.sleep(3 * late.LOOK_SECONDS)
    assert shown.text == ""
    shown.late.open()
    shown.wait("cell 7, process 0 (later)   early\n")


def test_a_display_of_the_cell_is_changed_in_its_place(tmp_path: Path) -> None:
    shown = Shown(tmp_path, notebook=True)
    shown.execution.receive(0, display("half"))
    shown.end()
    shown.execution.receive(0, display("whole", update=True))
    shown.wait("process 0\nwhole")


@pytest.mark.parametrize("ended", [False, True], ids=["in the later cell", "after it"])
def test_a_display_of_an_earlier_cell_is_changed_in_its_place(tmp_path: Path, ended: bool) -> None:
    earlier = EarlierCells()
    first = Shown(tmp_path / "1", notebook=True, earlier=earlier)
    first.execution.receive(0, display("half"))
    first.end()
    second = Shown(tmp_path / "2", notebook=True, earlier=earlier)
    if ended:
        second.end()
    second.execution.receive(0, display("whole", update=True))
    first.wait("process 0\nwhole")
    if not ended:
        second.end()
    assert second.text == ""


@pytest.mark.parametrize("ended", [False, True], ids=["in the cell", "after it"])
def test_a_change_of_a_display_that_is_nowhere_is_shown(tmp_path: Path, ended: bool) -> None:
    shown = Shown(tmp_path, notebook=True)
    if ended:
        shown.end()
    shown.execution.receive(0, display("half", update=True))
    shown.execution.receive(0, display("whole", update=True))
    if not ended:
        shown.end()
    shown.wait("cell 7, process 0 (later)\nwhole" if ended else "process 0\nwhole")


def test_the_output_of_the_newest_cells_alone_stays_in_memory(tmp_path: Path) -> None:
    earlier = EarlierCells()
    cells = [
        Shown(tmp_path / str(number), notebook=True, earlier=earlier)
        for number in range(late.MOST_CELLS + 1)
    ]
    outputs = []
    for cell in cells:
        cell.execution.receive(0, display("0%"))
        cell.end()
        outputs.append(weakref.ref(cell.output))
        del cell.output, cell.renderer, cell.execution
    del cell
    gc.collect()
    assert [output() is None for output in outputs] == [True] + [False] * late.MOST_CELLS
    # A thread of that cell still shows what becomes of its display.
    change = display("100%", update=True)
    change["content"]["transient"]["display_id"] = "of the first"
    cells[0].late.take(0, change)
    wait_for(lambda: "100%" in cells[0].text)


def test_the_thread_ends_when_it_is_quiet_and_comes_back(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late, "QUIET_SECONDS", 0.2)
    shown.end()
    assert shown.late._thread is None
    for text in ("one", "two"):
        shown.execution.receive(0, stream(f"{text}\n"))
        thread = shown.late._thread
        assert thread is not None
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
        assert text in shown.text


def test_messages_of_a_wrong_shape_are_named_and_the_next_is_shown(tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    shown.execution.receive(0, {"msg_type": "stream", "content": {"name": "stdout"}})
    shown.execution.receive(0, {"content": {}})
    shown.execution.receive(0, stream("in the cell\n"))
    shown.end()
    assert shown.text.count("could not be handled") == 2
    assert shown.text.endswith("process 0   in the cell\n")
    shown.execution.receive(0, {"msg_type": "stream", "content": None})
    shown.execution.receive(0, stream("saved\n"))
    wait_for(lambda: "saved" in shown.text)
    assert shown.text.endswith("cell 7, process 0 (later)   saved\n")
