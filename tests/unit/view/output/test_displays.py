"""Displays, cleared outputs and notes between the texts of many processes."""

from __future__ import annotations

import io
import uuid

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from nbdist.view.output import RichBlock
from nbdist.view.output.bounded_log import FRESH_S
from tests.builders.outputs import PNG, say, shown


def test_equal_figures_fold_and_keep_their_place(cell):
    say(cell, "before\n")
    for process_id in range(4):
        cell.display(process_id, PNG, {"image/png": {"width": 3}})
    say(cell, "after\n")
    cell.close()
    blocks = cell.blocks()
    assert shown(cell) == [
        ((0, 1, 2, 3), ("before",)),
        ((0, 1, 2, 3), set(PNG)),
        ((0, 1, 2, 3), ("after",)),
    ]
    assert [block.continued for block in blocks] == [False, True, True]
    assert isinstance(blocks[1], RichBlock)
    assert blocks[1].metadata == {"image/png": {"width": 3}}


def test_figures_that_differ_stand_by_process(cell):
    for process_id in range(4):
        cell.display(process_id, {"image/png": f"data{process_id % 2}"}, {})
    assert shown(cell) == [((0, 2), {"image/png"}), ((1, 3), {"image/png"})]


def test_result_that_is_text_only_is_text(cell):
    for process_id in range(4):
        cell.display(process_id, {"text/plain": "Array([1, 2],\n      dtype=int32)"}, {})
    assert shown(cell) == [((0, 1, 2, 3), ("Array([1, 2],", "      dtype=int32)"))]


def test_addresses_in_results_do_not_make_a_difference(cell):
    for process_id in range(4):
        cell.display(process_id, {"text/plain": f"<Line2D object at 0x7f00{process_id}a>"}, {})
        cell.display(
            process_id, {"text/plain": f"<F at 0x7f00{process_id}a>", "text/html": "<b>"}, {}
        )
    assert shown(cell) == [
        ((0, 1, 2, 3), ("<Line2D object at 0x…>",)),
        ((0, 1, 2, 3), {"text/plain", "text/html"}),
    ]


STYLED = (
    "<style>#T_{id} td {{color: red}} #T_{id}_row0_col0 {{color: blue}}</style>"
    '<table id="T_{id}"><td id="T_{id}_row0_col0">{value}</td></table>'
)


BOKEH = """const docs = {{"{document}":{{"version":"3.9.2","y":[3,{value}]}}}};
const items = [{{"docid":"{document}","roots":{{"p1008":"{element}"}}}}];"""


def styler(process_id, value):
    return {"text/html": STYLED.format(id=f"a{process_id}9f", value=value)}


def bokeh(process_id, value):
    document, element = (str(uuid.uuid4()) for _ in range(2))
    return {"application/javascript": BOKEH.format(document=document, element=element, value=value)}


def matplotlib(process_id, value):
    figure = Figure()
    figure.subplots().plot([1, value], "o-")
    drawn = io.StringIO()
    with plt.rc_context({"svg.hashsalt": f"process {process_id}"}):
        figure.savefig(drawn, format="svg", metadata={"Date": f"2026-11-2{process_id}"})
    return {"image/svg+xml": drawn.getvalue()}


@pytest.mark.parametrize("made", [styler, bokeh, matplotlib])
@pytest.mark.parametrize(
    ("values", "groups"), [((7, 7, 7, 7), [(0, 1, 2, 3)]), ((7, 7, 8, 8), [(0, 1), (2, 3)])]
)
def test_what_differs_in_invented_ids_and_dates_alone_is_one(cell, made, values, groups):
    bundles = [made(process_id, value) for process_id, value in enumerate(values)]
    for process_id, data in enumerate(bundles):
        cell.display(process_id, {**data, "text/plain": "<it>"}, {})
    assert [processes for processes, _ in shown(cell)] == groups
    assert bundles[0].items() <= cell.blocks()[0].data.items()


@pytest.mark.parametrize("html", ["<b>{number}</b>", "eN{letters}{process}"])
def test_a_number_of_a_run_and_what_only_looks_packed_are_compared_as_they_are(cell, html):
    for process_id in range(2):
        text = html.format(number=uuid.uuid4(), letters="A" * 60, process=process_id)
        cell.display(process_id, {"text/html": text}, {})
    cell.close()
    assert [processes for processes, _ in shown(cell)] == [(0,), (1,)]


# NumPy 2.5 warns when treescope looks through its modules.
@pytest.mark.filterwarnings("ignore:The chararray class is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("values", "groups"), [((7, 7), [(0, 1)]), ((7, 8), [(0,), (1,)])])
def test_treescope_is_shown_once_where_it_is_equal(cell, values, groups):
    treescope = pytest.importorskip("treescope", reason="it comes with Flax")
    rendered = [treescope.render_to_html({"a": [value, "text"]}) for value in values]
    assert rendered[0] != rendered[1], "treescope invents its ids"
    for process_id, html in enumerate(rendered):
        cell.display(process_id, {"text/html": html, "text/plain": "<HTML object>"}, {})
    cell.close()
    assert [processes for processes, _ in shown(cell)] == groups


def test_display_is_updated_in_its_place(cell):
    for process_id in range(4):
        cell.display(process_id, {"text/plain": "step 0"}, {}, display_id="d")
    say(cell, "below\n")
    for process_id in range(4):
        assert cell.display(process_id, {"text/plain": "step 1"}, {}, display_id="d", update=True)
    first, _ = cell.blocks()
    assert first.data == {"text/plain": "step 1"}
    assert first.processes == (0, 1, 2, 3)


def test_display_updated_on_one_process_first_does_not_split(cell):
    for process_id in range(4):
        cell.display(process_id, {"text/html": "0"}, {}, display_id="d")
    cell.display(2, {"text/html": "1"}, {}, display_id="d", update=True)
    assert shown(cell) == [((0, 1, 2, 3), {"text/html"})]
    assert cell.blocks()[0].data == {"text/html": "0"}
    cell.close()
    assert len(cell.blocks()) == 2


def test_update_of_another_cells_display_is_refused(cell):
    assert not cell.display(0, {"text/html": "1"}, {}, display_id="unknown", update=True)
    assert cell.blocks() == ()


def test_widget_views_fall_back_to_their_text(cell):
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "50%"}
    cell.display(0, view, {})
    cell.close()
    assert cell.blocks()[0].data == {"text/plain": "50%"}


@pytest.mark.parametrize("wait", [False, True])
def test_clear_output_drops_what_was_there_at_once_or_with_the_next_output(cell, wait):
    say(cell, "old\n")
    for process_id in range(4):
        cell.clear(process_id, wait=wait)
    assert shown(cell) == [((0, 1, 2, 3), ("old",))] * wait
    say(cell, "new\n")
    assert shown(cell) == [((0, 1, 2, 3), ("new",))]


def test_process_about_to_clear_does_not_split(cell, clock):
    say(cell, "plot 1\n")
    cell.clear(2, wait=True)
    say(cell, "plot 2\n", (2,))
    assert shown(cell) == [((0, 1, 2, 3), ("plot 1",))]
    cell.clear(2, wait=True)
    say(cell, "plot 3\n", (2,))
    for process_id in (0, 1, 3):
        cell.clear(process_id, wait=True)
        assert shown(cell) == [((0, 1, 2, 3), ("plot 1",))]
    say(cell, "plot 2\n", (0, 1, 3))
    assert shown(cell) == [((0, 1, 2, 3), ("plot 2",))]
    clock[0] += FRESH_S + 0.1
    assert shown(cell) == [((0, 1, 3), ("plot 2",)), ((2,), ("plot 3",))]


def test_notes_stand_where_they_came_and_keep_no_line_from_folding(cell):
    say(cell, "a\n")
    say(cell, "b\n", (0,))
    cell.note("note")
    cell.note("second")
    say(cell, "b\n", (1, 2, 3))
    say(cell, "c\n")
    assert shown(cell) == [
        ((0, 1, 2, 3), ("a", "b")),
        "note",
        "second",
        ((0, 1, 2, 3), ("c",)),
    ]


def test_note_parts_lines_by_process(cell):
    for process_id in range(4):
        cell.stream(process_id, "stdout", f"before {process_id % 2}\n")
    cell.note("note")
    for process_id in range(4):
        cell.stream(process_id, "stdout", f"after {process_id % 2}\n")
    assert shown(cell) == [
        ((0, 2), ("before 0",)),
        ((1, 3), ("before 1",)),
        "note",
        ((0, 2), ("after 0",)),
        ((1, 3), ("after 1",)),
    ]


def test_note_stays_below_the_last_words_of_a_process_unlike_the_others(cell):
    say(cell, "a\nb\n", (0, 1, 2))
    say(cell, "dying\n", (3,))
    cell.note("process 3 ended")
    say(cell, "c\n", (0, 1, 2))
    cell.close()
    assert shown(cell) == [
        ((0, 1, 2), ("a", "b")),
        ((3,), ("dying",)),
        "process 3 ended",
        ((0, 1, 2), ("c",)),
    ]


def test_note_stays_above_what_comes_after_a_clear(cell):
    say(cell, "old\n" * 5)
    cell.note("note")
    for process_id in range(4):
        cell.clear(process_id)
    say(cell, "new\n" * 5)
    assert shown(cell) == ["note", ((0, 1, 2, 3), ("new",) * 5)]


def test_note_stands_above_a_bar_that_goes_on(cell):
    say(cell, "a\n")
    say(cell, "\r1/2", name="stderr")
    cell.note("note")
    say(cell, "\r2/2", name="stderr")
    cell.close()
    assert shown(cell) == [((0, 1, 2, 3), ("a",)), "note", ((0, 1, 2, 3), ("2/2",))]


def test_too_many_notes_end_with_one_that_says_so(cell):
    for number in range(1000):
        cell.note(f"note {number}")
    texts = [block.text for block in cell.blocks()]
    assert (len(texts), texts[-1]) == (200, "… more notes are not shown")


def test_label_is_not_repeated_after_a_display_but_after_a_note(cell):
    say(cell, "a\n")
    cell.note("note")
    say(cell, "b\n")
    assert [getattr(block, "continued", None) for block in cell.blocks()] == [False, None, False]
