"""What a notebook shows of a cell's output."""

from __future__ import annotations

from types import SimpleNamespace

import jupyter_client.session
import nbformat
import pytest

from nbdist.view.output import (
    NotebookRenderer,
    TerminalRenderer,
    drops_later_output,
    renderer_for,
)
from tests.builders.outputs import PNG, say

GRAY = "\x1b[38;2;118;118;118m"
OFF = "\x1b[0m"


class Notebook:
    """The outputs of a cell, as a front end keeps them."""

    def __init__(self):
        self.outputs = []
        self.messages = []

    def publish(self, data, metadata, *, transient, update):
        self.messages.append((dict(data), update))
        content = {"data": dict(data), "metadata": dict(metadata)}
        if not update:
            self.outputs.append((transient["display_id"], content))
            return
        (place,) = [n for n, (one, _) in enumerate(self.outputs) if one == transient["display_id"]]
        self.outputs[place] = (transient["display_id"], content)

    @property
    def seen(self):
        """What is visible, from top to bottom, labels without their color."""
        bundles = [content["data"] for _, content in self.outputs if content["data"]]
        return [
            bundle["text/plain"].replace(GRAY, "").replace(OFF, "")
            if list(bundle) == ["text/plain"]
            else set(bundle)
            for bundle in bundles
        ]

    def validate(self):
        """Raises unless the outputs may be saved in a notebook."""
        outputs = [nbformat.v4.new_output("display_data", **content) for _, content in self.outputs]
        cell = nbformat.v4.new_code_cell(outputs=outputs)
        nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))


@pytest.fixture
def notebook():
    return Notebook()


@pytest.fixture
def in_notebook(notebook, clock):
    return NotebookRenderer(publish=notebook.publish, clock=lambda: clock[0])


@pytest.mark.parametrize(("text", "between"), [("\x1b[31mred\x1b[0m\n", "   "), ("a\nb\n", "\n")])
def test_notebook_shows_a_line_behind_its_label_and_several_below_it(
    cell, notebook, in_notebook, clock, text, between
):
    say(cell, text)
    in_notebook.refresh(cell)
    NotebookRenderer(publish=notebook.publish, clock=lambda: clock[0]).refresh(cell)
    (one, content), (other, same) = notebook.outputs
    whole = f"{GRAY}processes 0–3{OFF}{between}{text.rstrip()}"
    assert content["data"] == same["data"] == {"text/plain": whole}
    assert one != other


def test_neighboring_labels_have_one_width(cell, notebook, in_notebook):
    say(cell, "same\n")
    say(cell, "x\n", (0, 1, 3))
    say(cell, "y\n", (2,))
    cell.close()
    in_notebook.refresh(cell, final=True)
    assert notebook.seen == [
        "processes 0–3       same\nprocesses 0, 1, 3   x\nprocess 2           y"
    ]


def test_notebook_keeps_a_figure_between_texts(cell, notebook, in_notebook):
    say(cell, "before\n")
    for process_id in range(4):
        cell.display(process_id, PNG, {"image/png": {"width": 3}})
    say(cell, "after\n")
    cell.note("a note")
    in_notebook.refresh(cell, final=True)
    assert notebook.seen == ["processes 0–3   before", set(PNG), "after\na note"]
    assert notebook.outputs[1][1]["metadata"] == {"image/png": {"width": 3}}
    notebook.validate()


def test_figures_by_process_have_their_labels(cell, notebook, in_notebook):
    cell.display(0, {"image/png": "a"}, {})
    say(cell, "x\n", (0,))
    cell.display(1, {"image/png": "b"}, {})
    cell.close()
    in_notebook.refresh(cell, final=True)
    assert notebook.seen == ["process 0", {"image/png"}, "x\nprocess 1", {"image/png"}]


def test_notebook_sends_only_what_changed(cell, clock, notebook, in_notebook):
    say(cell, "a\n")
    for process_id in range(4):
        cell.display(process_id, PNG, {})
    in_notebook.refresh(cell)
    sent = len(notebook.messages)
    clock[0] += 1.0
    in_notebook.refresh(cell)
    assert len(notebook.messages) == sent
    say(cell, "b\n")
    clock[0] += 1.0
    in_notebook.refresh(cell)
    assert notebook.messages[sent:] == [({"text/plain": "b"}, False)]


def test_growing_text_sends_its_last_page_only(cell, clock, notebook, in_notebook):
    for number in range(1500):
        say(cell, f"{number}: {'x' * 20}\n")
    in_notebook.refresh(cell)
    assert len(notebook.messages) > 2
    sent = len(notebook.messages)
    say(cell, "one more\n")
    clock[0] += 1.0
    in_notebook.refresh(cell)
    ((data, update),) = notebook.messages[sent:]
    assert update
    assert data["text/plain"].endswith("one more")
    assert "\n".join(notebook.seen).count("\n") == 1501


def test_notebook_refreshes_at_most_five_times_a_second(cell, clock, notebook, in_notebook):
    for step in range(100):
        say(cell, f"\r{step}")
        in_notebook.refresh(cell)
        clock[0] += 0.01
    assert len(notebook.messages) <= 6
    in_notebook.refresh(cell, final=True)
    assert notebook.seen == ["processes 0–3   99"]


def test_notebook_waits_longer_after_sending_much(cell, clock, notebook, in_notebook):
    cell.display(0, {"image/png": "x" * 4_000_000}, {})
    clock[0] += 1.0
    in_notebook.refresh(cell)
    say(cell, "next\n", (0,))
    clock[0] += 5.0
    in_notebook.refresh(cell)
    assert "next" not in str(notebook.seen)
    clock[0] += 6.0
    in_notebook.refresh(cell)
    assert notebook.seen[-1] == "next"


def test_slots_no_longer_needed_are_empty_and_used_again(cell, clock, notebook, in_notebook):
    for process_id in range(4):
        cell.display(process_id, {"image/png": f"{process_id}"}, {})
    in_notebook.refresh(cell)
    slots = len(notebook.outputs)
    assert slots == 8
    for process_id in range(4):
        cell.clear(process_id)
    say(cell, "only this\n")
    clock[0] += 1.0
    in_notebook.refresh(cell)
    assert notebook.seen == ["processes 0–3   only this"]
    assert [content["data"] for _, content in notebook.outputs[1:]] == [{}] * 7
    notebook.validate()
    for process_id in range(4):
        cell.display(process_id, {"image/png": f"{process_id}"}, {})
    clock[0] += 1.0
    in_notebook.refresh(cell)
    assert len(notebook.outputs) == len(notebook.seen) == slots


def test_renderer_is_that_of_the_shell():
    class Zmq:
        kernel = SimpleNamespace(get_parent=lambda channel: {})

    class Plain:
        pass

    assert isinstance(renderer_for(Zmq()), NotebookRenderer)
    assert isinstance(renderer_for(Plain()), TerminalRenderer)
    assert isinstance(renderer_for(None), TerminalRenderer)


@pytest.mark.parametrize(
    ("client", "printed"),
    [
        pytest.param({}, True, id="Jupyter's console"),
        pytest.param({"metadata": {"cellId": "c1"}}, False, id="a page"),
        pytest.param({"content": {"allow_stdin": False}}, False, id="nbclient"),
        pytest.param(
            {"header": {"session": "s", "msg_id": "f00d"}}, False, id="a page of another kind"
        ),
    ],
)
def test_a_front_end_that_changes_no_display_gets_what_is_printed(
    client: dict[str, object], printed: bool
) -> None:
    said = jupyter_client.session.Session().msg("execute_request", {"allow_stdin": True}) | client
    shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda channel: said))
    assert isinstance(renderer_for(shell), TerminalRenderer if printed else NotebookRenderer)


@pytest.mark.parametrize(
    ("request_", "dropped"),
    [
        ({"content": {"allow_stdin": False}}, True),  # nbclient's
        ({"content": {"allow_stdin": True}}, False),
        ({"content": {}}, False),
        (None, False),
    ],
)
def test_later_output_is_lost_where_a_notebook_runs_without_anybody(
    request_: object, dropped: bool
) -> None:
    kernel = SimpleNamespace(get_parent=lambda channel: request_)
    assert drops_later_output(SimpleNamespace(kernel=kernel)) is dropped
    assert not drops_later_output(None)
