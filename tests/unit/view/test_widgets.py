"""Widgets of processes: what they are like, which are the same, and what a notebook shows of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.view.output import CellOutput, NotebookRenderer, RichBlock, TextBlock
from nbdist.view.output.bounded_log import FRESH_S
from nbdist.view.output.entries import WIDGET_MIME, view_of
from nbdist.view.widget_models import LEFT_OUT, MOST_CHARACTERS, WidgetModels, bar_of, referring
from nbdist.view.widgets import Event, Widgets

BASE = {"_model_module": "@jupyter-widgets/controls", "_model_module_version": "2.0.0"}


def opened(
    model: str, kind: str, *, buffers: list[bytes] | None = None, **state: Any
) -> dict[str, Any]:
    data = {"state": {**BASE, "_model_name": kind, **state}, "buffer_paths": []}
    if buffers:
        data["buffer_paths"] = [["data"]]
    content = {"comm_id": model, "target_name": "jupyter.widget", "data": data}
    return {"msg_type": "comm_open", "content": content, "buffers": buffers or []}


def updated(model: str, **state: Any) -> dict[str, Any]:
    data = {"method": "update", "state": state, "buffer_paths": []}
    return {"msg_type": "comm_msg", "content": {"comm_id": model, "data": data}, "buffers": []}


def closed(model: str) -> dict[str, Any]:
    return {"msg_type": "comm_close", "content": {"comm_id": model, "data": {}}}


def models(*messages: dict[str, Any]) -> WidgetModels:
    found = WidgetModels()
    for message in messages:
        found.take(message["msg_type"], message["content"], message.get("buffers", ()))
    return found


def slider(name: str, value: int) -> list[dict[str, Any]]:
    return [
        opened(f"{name}-layout", "LayoutModel"),
        opened(name, "IntSliderModel", value=value, layout=f"IPY_MODEL_{name}-layout"),
    ]


def tqdm_bar(name: str, total: int) -> list[dict[str, Any]]:
    inner = [f"{name}-{part}" for part in ("left", "progress", "right")]
    return [
        opened(inner[0], "HTMLModel", value=""),
        opened(inner[1], "FloatProgressModel", value=0.0, max=total, bar_style=""),
        opened(inner[2], "HTMLModel", value=""),
        opened(name, "HBoxModel", children=[f"IPY_MODEL_{one}" for one in inner]),
    ]


def advanced(name: str, n: int, total: int, rate: str, style: str = "") -> list[dict[str, Any]]:
    return [
        updated(f"{name}-left", value=f"load:\u2007{100 * n // total}%"),
        updated(f"{name}-progress", value=float(n), bar_style=style),
        updated(f"{name}-right", value=f"\u2007{n}/{total}\u2007[00:01&lt;00:00,\u2007{rate}it/s]"),
    ]


def box(*children: str) -> list[dict[str, Any]]:
    inner = [f"IPY_MODEL_{child}" for child in children]
    return [opened("x", "A"), opened("y", "A"), opened("box", "Box", children=inner)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (slider("a", 3), slider("b", 3), True),
        (slider("a", 3), slider("c", 4), False),
        (box("x", "y"), box("y", "x"), True),
        (box("x", "y"), box("x", "x"), False),
        ([opened("p", "I", buffers=[b"abc"])], [opened("q", "I", buffers=[b"abc"])], True),
        ([opened("p", "I", buffers=[b"abc"])], [opened("p", "I", buffers=[b"abd"])], False),
    ],
)
def test_widgets_are_equal_by_what_they_are_like_and_not_by_their_ids(
    one: list[dict[str, Any]], other: list[dict[str, Any]], same: bool
) -> None:
    digests = {models(*each).digest(each[-1]["content"]["comm_id"]) for each in (one, other)}
    assert (len(digests) == 1) is same


def test_a_circle_of_references_ends() -> None:
    found = models(opened("a", "A", to="IPY_MODEL_b"), opened("b", "B", to="IPY_MODEL_a"))
    assert list(found.parts("a").values()) == ["b", "a"]


def test_comms_of_others_and_messages_to_unknown_models_change_nothing() -> None:
    foreign = opened("f", "A")
    foreign["content"]["target_name"] = "somebody"
    found = models(foreign, updated("unknown", value=1), closed("unknown"))
    assert "f" not in found
    assert "unknown" not in found


def test_references_are_renamed_at_any_depth() -> None:
    state = {"children": ["IPY_MODEL_a", ["IPY_MODEL_b", 3]], "text": "a"}
    renamed = referring(state, {"a": "x", "b": "y"})
    assert renamed == {"children": ["IPY_MODEL_x", ["IPY_MODEL_y", 3]], "text": "a"}


def test_a_bar_of_tqdm_is_a_line_of_text_too() -> None:
    found = models(*tqdm_bar("b", 4), *advanced("b", 2, 4, "9.9"))
    bar = bar_of(found, "b")
    assert bar is not None
    assert bar.text == "load: 50%|██████████          | 2/4 [00:01<00:00, 9.9it/s]"
    assert (bar.value, bar.most, bar.open) == (2.0, 4.0, True)
    assert bar_of(models(*slider("a", 3)), "a") is None


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"msg_type": "stream", "content": {"name": name, "text": text}}


def test_what_is_captured_is_the_widget_s_and_the_inner_one_s_first(tmp_path: Path) -> None:
    board = Widgets()
    board.take(0, opened("out", "OutputModel", msg_id="", outputs=[]))
    board.take(0, opened("inner", "OutputModel", msg_id="", outputs=[]))
    assert not board.take(0, stream("outside"))
    board.take(0, updated("out", msg_id="m"))
    assert board.take(0, stream("a"))
    assert board.take(0, stream("b\n"))
    assert not board.take(1, stream("another process"))
    board.take(0, updated("inner", msg_id="m"))
    board.take(0, stream("in it"))
    board.take(0, updated("inner", msg_id=""))
    board.take(0, {"msg_type": "clear_output", "content": {"wait": True}})
    found = board.models_of(0)
    assert found["out"].state["outputs"] == (
        {"output_type": "stream", "name": "stdout", "text": "ab\n"},
    )
    board.take(0, stream("new", "stderr"))
    assert [one["text"] for one in found["out"].state["outputs"]] == ["new"]
    assert [one["text"] for one in found["inner"].state["outputs"]] == ["in it"]
    board.take(0, updated("out", msg_id=""))
    assert not board.take(0, stream("outside"))
    board.take(0, updated("out", msg_id="m"))
    board.take(0, closed("out"))
    assert not board.take(0, stream("outside"))


def test_what_is_captured_is_bounded() -> None:
    board = Widgets()
    board.take(0, opened("out", "OutputModel", msg_id="m", outputs=[]))
    board.take(0, updated("out", msg_id="m"))
    for number in range(100):
        board.take(0, stream(f"{number} " + "x" * MOST_CHARACTERS))
    outputs = board.models_of(0)["out"].state["outputs"]
    assert len(str(outputs)) < 2 * MOST_CHARACTERS
    assert outputs[0]["text"] == f"{LEFT_OUT}\n"


class Cell:
    """A cell on two processes, whose widgets are `a` on process 0 and `b` on process 1."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.board = Widgets(lambda: self.now)
        self.output = CellOutput(
            processes=range(2), folder=folder, clock=lambda: self.now, widgets=self.board
        )

    def take(self, process_id: int, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.board.take(process_id, message)

    def display(self, process_id: int, model: str) -> None:
        data = {"text/plain": f"text of {model}", WIDGET_MIME: view_of(model)}
        self.output.display(process_id, data, {})

    def show(self, make: Callable[[str], list[dict[str, Any]]]) -> None:
        for process_id, model in enumerate("ab"):
            self.take(process_id, *make(model))
            self.display(process_id, model)

    @property
    def shown(self) -> list[tuple[tuple[int, ...], list[str]]]:
        blocks = [block for block in self.output.blocks() if isinstance(block, RichBlock)]
        return [(block.processes, [one.root for one in block.widgets]) for block in blocks]


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


def test_equal_widgets_are_one_and_others_each_their_own(cell: Cell) -> None:
    cell.show(lambda name: slider(name, 3))
    cell.show(lambda name: slider(f"{name}2", ord(name)))
    cell.take(0, *slider("a3", 1))
    cell.display(0, "a3")
    cell.output.close()
    assert cell.shown[0] == ((0, 1), ["a", "b"])


def test_one_that_is_about_to_become_what_the_other_is_stays_the_same(cell: Cell) -> None:
    cell.show(lambda name: slider(name, 3))
    cell.take(0, updated("a", value=5), updated("a", value=6))
    assert cell.shown == [((0, 1), ["a", "b"])]
    cell.take(1, updated("b", value=5))
    assert cell.shown == [((0, 1), ["a", "b"])]
    cell.now += FRESH_S
    # Nothing comes any more.
    cell.take(0, updated("a-layout", width="1px"))
    cell.now += FRESH_S
    cell.output.close()
    assert cell.shown == [((0,), ["a"]), ((1,), ["b"])]


def test_what_was_never_the_other_s_is_its_own_at_once(cell: Cell) -> None:
    cell.show(lambda name: slider(name, 3))
    cell.take(0, updated("a", value=5))
    cell.take(1, updated("b", value=6))
    assert cell.shown == [((0,), ["a"]), ((1,), ["b"])]
    cell.take(1, updated("b", value=5))
    assert cell.shown == [((0, 1), ["a", "b"])]


@pytest.mark.parametrize(
    ("n", "style", "shown"),
    [(4, "success", [((0, 1), ["a", "b"])]), (2, "danger", [((0,), ["a"]), ((1,), ["b"])])],
)
def test_a_bar_stays_one_while_it_goes_on_and_after_that_if_both_end_at_one_place(
    cell: Cell, n: int, style: str, shown: object
) -> None:
    cell.show(lambda name: tqdm_bar(name, 4))
    cell.take(0, *advanced("a", 1, 4, "9.9"))
    cell.now += 10.0
    assert cell.shown == [((0, 1), ["a", "b"])]
    cell.take(0, *advanced("a", 4, 4, "9.9", "success"))
    cell.take(1, *advanced("b", n, 4, "7.1", style))
    cell.now += 10.0
    cell.output.close()
    assert cell.shown == shown


def test_what_all_have_taken_away_is_shown_no_longer(cell: Cell) -> None:
    cell.show(lambda name: slider(name, 3))
    cell.take(0, closed("a"))
    assert cell.shown == [((0, 1), ["a", "b"])]
    cell.take(1, closed("b"))
    cell.output.close()
    assert cell.output.blocks() == ()


def test_a_widget_that_is_not_known_is_its_text(cell: Cell) -> None:
    cell.display(0, "unknown")
    cell.output.close()
    (block,) = cell.output.blocks()
    assert isinstance(block, RichBlock | TextBlock)
    assert not getattr(block, "widgets", ())
    assert "text of unknown" in str(block)


def test_an_ended_cell_hears_of_changes(cell: Cell) -> None:
    cell.show(lambda name: slider(name, 3))
    cell.output.close()
    received = []
    cell.output.on_widget = lambda: received.append(len(cell.shown))
    cell.take(0, updated("a", value=4))
    assert received == [1]
    assert cell.output.changeable


class Page:
    """What a front end holds: outputs by display id, and the models of widgets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outputs: dict[str, dict[str, Any]] = {}
        self.models: dict[str, dict[str, Any]] = {}
        monkeypatch.setattr("comm.create_comm", self._open)

    def publish(self, data: Any, metadata: Any, *, transient: Any, update: bool) -> None:
        self.outputs[transient["display_id"]] = dict(data)

    def _open(self, *, comm_id: str, data: Any, **_: Any) -> Any:
        page = self
        state = page.models[comm_id] = dict(data["state"])
        # Jupyter's front end finds a part only where it is there already.
        for inner in state.get("children", []):
            assert inner.removeprefix("IPY_MODEL_") in page.models

        class Comm:
            def __init__(self) -> None:
                self.comm_id = comm_id
                self.kernel = page

            def on_msg(self, _: Any) -> None: ...

            def send(self, data: Any, buffers: Any = None) -> None:
                if data["method"] == "update":
                    state.update(data["state"])

            def close(self, *_: Any, **__: Any) -> None:
                page.models.pop(comm_id, None)

        return Comm()

    @property
    def widgets(self) -> list[dict[str, Any]]:
        """The states of the models that are displayed."""
        views = [data[WIDGET_MIME] for data in self.outputs.values() if WIDGET_MIME in data]
        return [self.models[view["model_id"]] for view in views]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(monkeypatch)


def test_a_notebook_shows_one_model_that_follows_whoever_is_furthest_behind(
    cell: Cell, page: Page
) -> None:
    renderer = NotebookRenderer(publish=page.publish)
    cell.show(lambda name: tqdm_bar(name, 4))
    cell.take(0, *advanced("a", 3, 4, "9.9"))
    cell.take(1, *advanced("b", 1, 4, "9.9"))
    renderer.refresh(cell.output, final=True)
    (box,) = page.widgets
    progress = page.models[box["children"][1].removeprefix("IPY_MODEL_")]
    assert progress["value"] == 1.0
    before = dict(page.outputs)
    for process_id, name in enumerate("ab"):
        cell.take(process_id, *advanced(name, 3, 4, "9.9"))
    renderer.refresh(cell.output, final=True)
    assert progress["value"] == 3.0
    # Only models change: another output would be another view of them, which blinks.
    assert page.outputs == before
    for process_id, name in enumerate("ab"):
        cell.take(process_id, *advanced(name, 4, 4, "9.9", "success"))
    cell.output.close()
    renderer.refresh(cell.output, final=True)
    texts = [data["text/plain"] for data in page.outputs.values()]
    assert any("load: 100%|" in text and "4/4" in text for text in texts)


def test_what_is_done_to_a_widget_is_done_to_those_of_all_its_processes(
    cell: Cell, page: Page
) -> None:
    events: list[Event] = []
    cell.board.on_event = events.append
    cell.show(lambda name: slider(name, 3))
    (block,) = [one for one in cell.output.blocks() if isinstance(one, RichBlock)]
    root = cell.board.show(block.widgets)
    mirrors = cell.board._mirrors
    model = mirrors._models[root][root]
    model.set_state({"value": 8})
    model._custom(model, {"event": "click"}, [b"x"])
    assert [dict(event.models) for event in events] == [{0: "a", 1: "b"}] * 2
    assert events[0].data == {"method": "update", "state": {"value": 8}, "buffer_paths": []}
    assert events[1].data == {"method": "custom", "content": {"event": "click"}}
    assert events[1].buffers == (b"x",)


def test_what_the_processes_refuse_is_put_back(cell: Cell, page: Page) -> None:
    def refuse(event: Event) -> None:
        raise RuntimeError("busy")

    cell.board.on_event = refuse
    cell.show(lambda name: slider(name, 3))
    (block,) = [one for one in cell.output.blocks() if isinstance(one, RichBlock)]
    root = cell.board.show(block.widgets)
    page.models[root]["value"] = 8  # as a person has moved it
    mirrors = cell.board._mirrors
    with pytest.raises(RuntimeError):
        mirrors._models[root][root].set_state({"value": 8})
    assert page.models[root]["value"] == 3


def test_models_of_what_was_taken_away_are_closed(cell: Cell, page: Page) -> None:
    renderer = NotebookRenderer(publish=page.publish)
    for number in range(20):
        for process_id, name in enumerate("ab"):
            cell.take(process_id, *tqdm_bar(f"{name}{number}", number + 1))
            cell.display(process_id, f"{name}{number}")
        renderer.refresh(cell.output, final=True)
        for process_id, name in enumerate("ab"):
            cell.take(process_id, closed(f"{name}{number}"))
        renderer.refresh(cell.output, final=True)
    assert len(page.models) <= 2 * 4
