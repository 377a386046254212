"""Outputs of many processes as one: what is folded, what stands by process, and in which order."""

from __future__ import annotations

import random

import pytest

from nbdist.view.output import CellOutput, NoteBlock, TextBlock
from nbdist.view.output.agree import align
from nbdist.view.output.bounded_log import FRESH_S, HOLD_S
from tests.builders.outputs import PNG, say, shown


def lines_of(cell, process_id):
    """What of one process is shown, line by line."""
    blocks = [block for block in cell.blocks() if isinstance(block, TextBlock)]
    return [line for block in blocks if process_id in block.processes for line in block.lines]


ALL = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param([("0123", "0.2311\n")], [(ALL, ("0.2311",))], id="equal"),
        pytest.param(
            [("02", "even\n"), ("13", "odd\n")],
            [((0, 2), ("even",)), ((1, 3), ("odd",))],
            id="some agree",
        ),
        pytest.param(
            [("0123", "a\n"), ("0", "saving\nsaved\n"), ("0123", "b\nc\n")],
            [(ALL, ("a",)), ((0,), ("saving", "saved")), (ALL, ("b", "c"))],
            id="extra lines of one do not split the rest",
        ),
        pytest.param(
            [("013", "a\nb\n"), ("2", "quite\ndifferent\n"), ("1", "mine\n"), ("013", "c\n")],
            [
                ((0, 1, 3), ("a", "b")),
                ((1,), ("mine",)),
                ((0, 1, 3), ("c",)),
                ((2,), ("quite", "different")),
            ],
            id="others still fold beside one that says something else",
        ),
        pytest.param(
            [("0", "a\n\nb\n\nend\n"), ("1", "x\ny\n\nend\n"), ("23", "z\n\nend\n")],
            [
                ((0,), ("a", "", "b", "")),
                ((1,), ("x", "y", "")),
                ((2, 3), ("z", "")),
                (ALL, ("end",)),
            ],
            id="empty lines are no place to meet",
        ),
        pytest.param(
            [("0", "x\n"), ("1", "y\n")],
            [((0,), ("x",)), ((1,), ("y",))],
            id="a silent one is behind nobody where the others differ",
        ),
        pytest.param(
            [*((str(p), f"I am {p}\n") for p in ALL), ("01", "a\n")],
            [*(((p,), (f"I am {p}",)) for p in ALL), ((0, 1), ("a",))],
            id="first lines of all before what some have in common",
        ),
        pytest.param(
            [("01", "x"), ("23", "x\n")], [(ALL, ("x",))], id="a missing line end is none"
        ),
        pytest.param([("0", "a\ud800b\n")], [((0,), ("a?b",))], id="lone surrogates"),
    ],
)
def test_lines_stand_once_for_all_that_have_them(cell, said, expected):
    for processes, text in said:
        say(cell, text, map(int, processes))
    cell.close()
    assert shown(cell) == expected


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


def test_what_others_may_still_bring_is_held_back_and_said_of_nobody_else(cell, clock):
    say(cell, "a\nb\nc\n", (0, 1))
    say(cell, "a\n", (2,))
    assert shown(cell) == []
    say(cell, "a\n", (3,))
    assert shown(cell) == [((0, 1, 2, 3), ("a",))]
    say(cell, "b\n", (2,))
    clock[0] += HOLD_S
    say(cell, "d\n", (0,))
    assert shown(cell) == [
        ((0, 1, 2, 3), ("a",)),
        ((0, 1, 2), ("b",)),
        ((0, 1), ("c",)),
    ]
    cell.close()
    assert shown(cell)[-1] == ((0,), ("d",))


def test_nothing_stands_before_what_was_held_back_of_the_same_process(cell, clock):
    cell.stream(0, "stdout", "a\n")
    cell.stream(1, "stdout", "other\n")
    cell.stream(2, "stdout", "a\n")
    clock[0] += HOLD_S
    say(cell, "b\n", (0,))
    say(cell, "end\n", (0, 1))
    assert shown(cell) == [((0, 2), ("a",)), ((1,), ("other",))]
    clock[0] += HOLD_S
    assert shown(cell)[-1] == ((0, 1), ("end",))
    assert lines_of(cell, 0) == ["a", "b", "end"]


def test_bars_stay_while_a_line_is_held_back(cell):
    for process_id in range(4):
        cell.stream(process_id, "stderr", "\r 10%|█   | 1/10 [00:01<00:09, 1it/s]")
    say(cell, "epoch 1\n", (1,))
    ((processes, lines),) = shown(cell)
    assert (processes, len(lines)) == ((0, 1, 2, 3), 1)


@pytest.mark.parametrize("ends", [False, True])
def test_process_in_the_middle_of_a_line_does_not_split_until_it_is_stuck_or_done(
    cell, clock, ends
):
    say(cell, "loss 0.25\n", (0, 1, 2))
    cell.stream(3, "stdout", "loss 0.")
    assert shown(cell) == []
    if ends:
        cell.finish(3)
    else:
        clock[0] += FRESH_S + 0.1
    assert shown(cell) == [((0, 1, 2), ("loss 0.25",)), ((3,), ("loss 0.",))]


def test_process_that_stays_behind_or_is_done_is_not_named_until_it_comes(cell, clock):
    say(cell, "a\n", (0, 1, 2))
    clock[0] += HOLD_S
    assert shown(cell) == [((0, 1, 2), ("a",))]
    cell.finish(3)
    assert shown(cell) == [((0, 1, 2), ("a",))]
    say(cell, "a\n", (3,))  # as of a thread that goes on
    assert shown(cell) == [(ALL, ("a",))]


def test_order_of_the_two_streams_is_kept(cell):
    for name, text in (("stdout", "1\n"), ("stderr", "2\n"), ("stdout", "3"), ("stderr", "4")):
        say(cell, text, name=name)
    assert shown(cell) == [((0, 1, 2, 3), ("1", "2", "3", "4"))]


def test_output_after_close_is_dropped(cell):
    cell.close()
    say(cell, "late\n")
    assert not cell.display(0, PNG, {})
    cell.note("late")
    cell.clear(0)
    cell.close()
    assert cell.blocks() == ()


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


SHARDS = "[Shard(device=cpu:{0}, data=[[0. 0.]\n [0. 0.]]),\n Shard(device=cpu:{1}, data=[[0. 0.]\n [0. 0.]])]"


def reply(cell, process_id, text):
    cell.display(process_id, {"text/plain": text}, {})


def test_equal_results_of_several_lines_are_shown_once_beside_one_that_differs(cell):
    for process_id in range(4):
        cell.clear(process_id, wait=True)
        reply(cell, process_id, SHARDS.format(0, 1 if process_id < 3 else 9))
    assert shown(cell) == [
        ((0, 1, 2), tuple(SHARDS.format(0, 1).split("\n"))),
        ((3,), tuple(SHARDS.format(0, 9).split("\n"))),
    ]


def test_results_of_several_lines_that_differ_in_addresses_only_are_one(cell):
    for process_id in range(4):
        reply(cell, process_id, f"[<Line at 0x7f00{process_id}0>,\n <Line at 0x7f11{process_id}0>]")
    assert shown(cell) == [(tuple(range(4)), ("[<Line at 0x…>,", " <Line at 0x…>]"))]


TRACEBACK = """Traceback (most recent call last):
  File "/tmp/ipykernel_0/309.py", line 4, in <module>
    check(me)
ValueError: shard {}
"""


def test_printed_tracebacks_are_shown_whole_and_equal_ones_once(cell):
    for process_id in range(4):
        say(cell, f"before\n{TRACEBACK.format(process_id // 2)}after\n", [process_id])
    lines = [tuple(TRACEBACK.format(shard).splitlines()) for shard in range(2)]
    everyone = tuple(range(4))
    assert shown(cell) == [
        (everyone, ("before",)),
        ((0, 1), lines[0]),
        ((2, 3), lines[1]),
        (everyone, ("after",)),
    ]


def test_what_is_printed_around_results_is_still_compared_by_lines(cell):
    say(cell, "before\n")
    for process_id in range(4):
        reply(cell, process_id, f"a\n{process_id}\nb")
        say(cell, "after\n", [process_id])
    assert shown(cell) == [
        (tuple(range(4)), ("before",)),
        *(((p,), ("a", str(p), "b")) for p in range(4)),
        (tuple(range(4)), ("after",)),
    ]


def test_a_terminal_prints_results_of_several_lines_as_blocks_too(cell):
    for process_id in range(4):
        reply(cell, process_id, f"a\n{process_id}\nb")
        cell.finish(process_id)
    found = [(block.processes, block.lines) for block in cell.take(final=True)]
    assert found == [((p,), ("a", str(p), "b")) for p in range(4)]


def test_what_one_process_shows_at_a_prompt_is_not_what_others_are_behind_with(cell):
    say(cell, "all\n")
    say(cell, "> line 4\n", [1])
    assert shown(cell) == [((0, 1, 2, 3), ("all",))]
    cell.compare_strictly()
    assert shown(cell) == [((0, 1, 2, 3), ("all",)), ((1,), ("> line 4",))]
    say(cell, "all again\n")
    assert shown(cell)[-1] == ((0, 1, 2, 3), ("all again",))


@pytest.mark.parametrize("seed", range(40))
def test_no_process_is_ever_said_to_have_shown_what_it_has_not(cell, clock, seed):
    chance = random.Random(seed)
    said = {process_id: [] for process_id in range(4)}
    for step in range(60):
        process_id = chance.randrange(4)
        line = chance.choice([f"step {len(said[process_id])}", "same", f"own {process_id}"])
        if chance.random() < 0.05:
            cell.clear(process_id, wait=True)
            said[process_id].append(None)
        said[process_id].append(line)
        cell.stream(process_id, "stdout", f"{line}\n")
        clock[0] += chance.choice([0.0, 0.01, 0.3, 1.0])
        if step == 50:
            cell.finish(chance.randrange(4))
        for one, all_of_it in said.items():
            lines = iter(all_of_it)
            missing = [line for line in lines_of(cell, one) if line not in lines]
            assert not missing, (one, all_of_it, lines_of(cell, one))


@pytest.mark.parametrize("seed", range(20))
def test_lines_shown_for_all_processes_stay_so_whoever_prints_more(cell, clock, seed):
    chance = random.Random(seed)
    columns = [[], [], [], []]
    common = [f"step {chance.randrange(5)}" for _ in range(30)]
    own = [[f"own {chance.randrange(3)}" for _ in range(5)] for _ in columns]
    lines = [common + mine for mine in own]
    while any(lines):
        process_id = chance.choice([p for p, left in enumerate(lines) if left])
        line = lines[process_id].pop(0)
        columns[process_id].append(line)
        say(cell, f"{line}\n", [process_id])
        clock[0] += chance.choice([0.0, 0.5, 3.0])
        alike = 0
        while all(len(c) > alike and c[alike] == columns[0][alike] for c in columns):
            alike += 1
        if alike:
            processes, first = shown(cell)[0]
            assert processes == (0, 1, 2, 3)
            assert list(first[:alike]) == columns[0][:alike]
