"""Outputs of many processes as one: what is folded, what stands by process, and in which order."""

from __future__ import annotations

import random

import pytest

from nbdist.output import CellOutput, NoteBlock, RichBlock, TextBlock
from nbdist.output.agree import FRESH_S
from nbdist.output.align import align

PNG = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure size 640x480 with 1 Axes>"}


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def cell(tmp_path, clock):
    return CellOutput(processes=range(4), folder=tmp_path / "cell", clock=lambda: clock[0])


def shown(cell):
    return [
        block.text
        if isinstance(block, NoteBlock)
        else (block.processes, block.lines if isinstance(block, TextBlock) else set(block.data))
        for block in cell.blocks()
    ]


def say(cell, text, processes=range(4), name="stdout"):
    for process_id in processes:
        cell.stream(process_id, name, text)


def lines_of(cell, process_id):
    """What of one process is shown, line by line."""
    blocks = [block for block in cell.blocks() if isinstance(block, TextBlock)]
    return [line for block in blocks if process_id in block.processes for line in block.lines]


def test_equal_text_is_shown_once(cell):
    say(cell, "0.2311\n")
    cell.close()
    assert shown(cell) == [((0, 1, 2, 3), ("0.2311",))]


def test_one_process_alone_is_named(tmp_path):
    cell = CellOutput(processes=[2], folder=tmp_path)
    cell.stream(2, "stdout", "x\n")
    assert shown(cell) == [((2,), ("x",))]


def test_processes_that_agree_share_a_block(cell):
    say(cell, "even\n", (0, 2))
    say(cell, "odd\n", (1, 3))
    assert shown(cell) == [((0, 2), ("even",)), ((1, 3), ("odd",))]


def test_one_differing_line_stands_between_folded_runs(cell):
    before = "".join(f"line {number}\n" for number in range(50))
    after = "".join(f"more {number}\n" for number in range(50))
    for process_id in range(4):
        cell.stream(process_id, "stdout", f"{before}seed {process_id // 2}\n{after}")
    assert [(processes, len(lines)) for processes, lines in shown(cell)] == [
        ((0, 1, 2, 3), 50),
        ((0, 1), 1),
        ((2, 3), 1),
        ((0, 1, 2, 3), 50),
    ]


def test_extra_lines_of_one_process_do_not_split_the_rest(cell):
    say(cell, "a\n")
    say(cell, "saving\nsaved\n", (0,))
    say(cell, "b\nc\n")
    assert shown(cell) == [
        ((0, 1, 2, 3), ("a",)),
        ((0,), ("saving", "saved")),
        ((0, 1, 2, 3), ("b", "c")),
    ]


def test_others_still_fold_below_a_process_that_says_something_else(cell):
    say(cell, "a\nb\n", (0, 1, 3))
    say(cell, "quite\ndifferent\n", (2,))
    say(cell, "mine\n", (1,))
    say(cell, "c\n", (0, 1, 3))
    cell.close()
    assert shown(cell) == [
        ((0, 1, 3), ("a", "b")),
        ((1,), ("mine",)),
        ((0, 1, 3), ("c",)),
        ((2,), ("quite", "different")),
    ]


def test_empty_lines_are_no_place_to_meet(cell):
    cell.stream(0, "stdout", "a\n\nb\n\nend\n")
    cell.stream(1, "stdout", "x\ny\n\nend\n")
    say(cell, "z\n\nend\n", (2, 3))
    assert shown(cell) == [
        ((0,), ("a", "", "b", "")),
        ((1,), ("x", "y", "")),
        ((2, 3), ("z", "")),
        ((0, 1, 2, 3), ("end",)),
    ]


def test_process_merely_behind_does_not_split_while_it_runs(cell):
    say(cell, "a\nb\nc\n", (0, 1))
    say(cell, "a\n", (2,))
    assert shown(cell) == [((0, 1, 2, 3), ("a", "b", "c"))]
    cell.close()
    assert shown(cell) == [((0, 1, 2), ("a",)), ((0, 1), ("b", "c"))]


def test_process_in_the_middle_of_a_line_does_not_split(cell):
    say(cell, "loss 0.25\n", (0, 1, 2))
    cell.stream(3, "stdout", "loss 0.")
    assert shown(cell) == [((0, 1, 2, 3), ("loss 0.25",))]
    cell.finish(3)
    assert shown(cell) == [((0, 1, 2), ("loss 0.25",)), ((3,), ("loss 0.",))]


def test_process_stuck_in_the_middle_of_a_line_shows_it(cell, clock):
    say(cell, "loss 0.25\n", (0, 1, 2))
    cell.stream(3, "stdout", "loss 0.")
    clock[0] += FRESH_S + 0.1
    assert shown(cell) == [((0, 1, 2), ("loss 0.25",)), ((3,), ("loss 0.",))]


def test_silent_process_is_behind_nobody_when_the_others_differ(cell):
    say(cell, "x\n", (0,))
    say(cell, "y\n", (1,))
    assert shown(cell) == [((0,), ("x",)), ((1,), ("y",))]


def test_first_lines_of_all_stand_before_what_some_have_in_common(cell):
    for process_id in range(4):
        cell.stream(process_id, "stdout", f"I am {process_id}\n")
    say(cell, "a\n", (0, 1))
    assert shown(cell) == [
        ((0,), ("I am 0",)),
        ((1,), ("I am 1",)),
        ((2,), ("I am 2",)),
        ((3,), ("I am 3",)),
        ((0, 1), ("a",)),
    ]


def test_process_that_stays_behind_is_no_longer_named(cell, clock):
    say(cell, "a\n", (0, 1, 2))
    assert shown(cell) == [((0, 1, 2, 3), ("a",))]
    clock[0] += FRESH_S + 0.1
    assert shown(cell) == [((0, 1, 2), ("a",))]
    say(cell, "a\n", (3,))
    assert shown(cell) == [((0, 1, 2, 3), ("a",))]


def test_finished_process_that_said_less_is_compared_strictly_at_once(cell):
    say(cell, "a\n", (0, 1, 2))
    cell.finish(3)
    assert shown(cell) == [((0, 1, 2), ("a",))]


def test_missing_line_end_makes_no_difference(cell):
    say(cell, "x", (0, 1))
    say(cell, "x\n", (2, 3))
    cell.close()
    assert shown(cell) == [((0, 1, 2, 3), ("x",))]


def test_order_of_the_two_streams_is_kept(cell):
    for name, text in (("stdout", "1\n"), ("stderr", "2\n"), ("stdout", "3"), ("stderr", "4")):
        say(cell, text, name=name)
    assert shown(cell) == [((0, 1, 2, 3), ("1", "2", "3", "4"))]


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


def test_addresses_in_prints_do(cell):
    for process_id in range(4):
        cell.stream(process_id, "stdout", f"at 0x7f00{process_id}a\n")
    assert len(shown(cell)) == 4


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
    assert cell.blocks()[0].data == {"text/html": "1"}
    cell.close()
    assert len(cell.blocks()) == 2


def test_update_of_another_cells_display_is_refused(cell):
    assert not cell.display(0, {"text/html": "1"}, {}, display_id="unknown", update=True)
    assert cell.blocks() == ()


def test_widget_views_fall_back_to_their_text(cell):
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "50%"}
    cell.display(0, view, {})
    assert cell.blocks()[0].data == {"text/plain": "50%"}


def test_clear_output_drops_what_was_there(cell):
    say(cell, "old\n")
    for process_id in range(4):
        cell.clear(process_id)
    assert shown(cell) == []
    say(cell, "new\n")
    assert shown(cell) == [((0, 1, 2, 3), ("new",))]


def test_clear_output_with_wait_waits_for_the_next_output(cell):
    say(cell, "old\n")
    for process_id in range(4):
        cell.clear(process_id, wait=True)
    assert shown(cell) == [((0, 1, 2, 3), ("old",))]
    say(cell, "new\n")
    assert shown(cell) == [((0, 1, 2, 3), ("new",))]


def test_process_about_to_clear_does_not_split(cell, clock):
    say(cell, "plot 1\n")
    cell.clear(2, wait=True)
    say(cell, "plot 2\n", (2,))
    assert shown(cell) == [((0, 1, 2, 3), ("plot 2",))]
    clock[0] += FRESH_S + 0.1
    assert shown(cell) == [((0, 1, 3), ("plot 1",)), ((2,), ("plot 2",))]


def test_note_stands_where_it_came(cell):
    say(cell, "a\n")
    cell.note("first")
    cell.note("second")
    say(cell, "b\n")
    assert shown(cell) == [
        ((0, 1, 2, 3), ("a",)),
        "first",
        "second",
        ((0, 1, 2, 3), ("b",)),
    ]


def test_note_does_not_keep_a_line_from_folding(cell):
    say(cell, "a\n")
    say(cell, "b\n", (0,))
    cell.note("note")
    say(cell, "b\n", (1, 2, 3))
    say(cell, "c\n")
    assert shown(cell) == [
        ((0, 1, 2, 3), ("a", "b")),
        "note",
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
    assert len(texts) == 200
    assert texts[-1] == "… more notes are not shown"


def test_label_is_not_repeated_after_a_display_but_after_a_note(cell):
    say(cell, "a\n")
    cell.note("note")
    say(cell, "b\n")
    assert [getattr(block, "continued", None) for block in cell.blocks()] == [False, None, False]


def test_output_after_close_is_dropped(cell):
    cell.close()
    say(cell, "late\n")
    assert not cell.display(0, PNG, {})
    cell.note("late")
    cell.clear(0)
    cell.close()
    assert cell.blocks() == ()


def test_output_of_a_thread_after_the_cell_is_still_shown(cell):
    cell.finish(0)
    cell.stream(0, "stdout", "late\n")
    cell.close()
    assert shown(cell) == [((0,), ("late",))]


def test_lone_surrogates_are_replaced(cell):
    cell.stream(0, "stdout", "a\ud800b\n")
    cell.close()
    assert shown(cell) == [((0,), ("a?b",))]


@pytest.mark.parametrize("seed", range(60))
def test_every_line_is_shown_in_its_processs_order_whatever_the_interleaving(tmp_path, clock, seed):
    chance = random.Random(seed)
    count = chance.choice([1, 2, 4, 7])
    cell = CellOutput(processes=range(count), folder=tmp_path, clock=lambda: clock[0])
    programs = {one: [] for one in range(count)}
    for number in range(chance.randrange(120)):
        kind = chance.random()
        for one in range(count):
            if kind < 0.6:
                programs[one].append(f"line {number % 9}")
            elif kind < 0.8:
                programs[one].append(f"own {chance.randrange(3)}")
            elif chance.random() < 0.3:
                programs[one].append(chance.choice(["", "extra", f"extra {number}"]))
    written = {one: "".join(f"{line}\n" for line in lines) for one, lines in programs.items()}
    notes = []
    while any(written.values()):
        one = chance.choice([one for one, text in written.items() if text])
        piece = chance.randrange(1, 60)
        cell.stream(one, "stdout", written[one][:piece])
        written[one] = written[one][piece:]
        clock[0] += chance.random()
        if chance.random() < 0.1:
            cell.blocks()
        if chance.random() < 0.05:
            notes.append(f"note {len(notes)}")
            cell.note(notes[-1])
    cell.close()
    for one, lines in programs.items():
        assert lines_of(cell, one) == lines
    assert [block.text for block in cell.blocks() if isinstance(block, NoteBlock)] == notes


@pytest.mark.parametrize("seed", range(60))
def test_sections_are_whole_sequences_and_common_ones_are_equal(seed):
    chance = random.Random(seed)
    columns = [
        [f"k{chance.randrange(12)}" for _ in range(chance.randrange(40))]
        for _ in range(chance.choice([1, 2, 3, 8]))
    ]
    sections = align(columns)
    for index, column in enumerate(columns):
        joined = [key for section in sections for key in column[slice(*section.spans[index])]]
        assert joined == column
    for section in sections:
        parts = [column[slice(*span)] for column, span in zip(columns, section.spans, strict=True)]
        assert any(parts)
        if section.common:
            assert len({tuple(part) for part in parts if part}) == 1
        outside = set(range(len(columns))) - set(section.members)
        assert not any(parts[index] for index in outside)
