"""What a terminal shows of a cell's output."""

from __future__ import annotations

import io
import random

import pytest

from nbdist.view.output import CellOutput, TerminalRenderer
from nbdist.view.output.bounded_log import HOLD_S
from tests.builders.outputs import PNG, say

OFF = "\x1b[0m"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def file():
    return io.StringIO()


@pytest.fixture
def in_terminal(file, clock):
    return TerminalRenderer(file=file, clock=lambda: clock[0])


def test_terminal_waits_for_the_rest_of_the_processes(cell, clock, file, in_terminal):
    say(cell, "a\n", (0, 1, 2))
    in_terminal.refresh(cell)
    clock[0] += HOLD_S - 0.1
    say(cell, "a\n", (3,))
    in_terminal.refresh(cell)
    assert file.getvalue() == "processes 0–3   a\n"


def test_terminal_prints_by_process_what_differs_after_a_while(cell, clock, file, in_terminal):
    for process_id in range(4):
        cell.stream(process_id, "stdout", f"I am {process_id % 2}\n")
    in_terminal.refresh(cell)
    assert file.getvalue() == ""
    clock[0] += HOLD_S + 0.1
    in_terminal.refresh(cell)
    assert file.getvalue() == "processes 0, 2   I am 0\nprocesses 1, 3   I am 1\n"


def test_terminal_prints_differing_lines_at_once_when_all_have_gone_on(cell, file, in_terminal):
    for process_id in range(4):
        cell.stream(process_id, "stdout", f"I am {process_id % 2}\nsame\n")
    in_terminal.refresh(cell)
    assert file.getvalue() == (
        "processes 0, 2   I am 0\nprocesses 1, 3   I am 1\nprocesses 0–3    same\n"
    )


def test_terminal_prints_at_once_what_all_have_and_repeats_no_label(cell, clock, file, in_terminal):
    say(cell, "a\nb\n")
    in_terminal.refresh(cell)
    clock[0] += 1.0
    say(cell, "c\n")
    in_terminal.refresh(cell)
    cell.finish(3)
    say(cell, "d\n", (0, 1, 2))  # nobody waits for who has finished
    cell.meanwhile("for a terminal alone")
    clock[0] += 1.0
    in_terminal.refresh(cell)
    assert file.getvalue() == "processes 0–3\na\nb\nc\nprocesses 0–2   d\n"


def test_terminal_prints_a_bar_once_when_it_is_complete(cell, clock, file, in_terminal):
    for step in range(1, 6):
        for process_id in range(4):
            text = f"\r{step * 20}%|██| {step}/5 [00:0{process_id}<00:01, {step}it/s]"
            cell.stream(process_id, "stderr", text)
        clock[0] += 1.0
        in_terminal.refresh(cell)
    assert file.getvalue() == ""
    say(cell, "\n", name="stderr")
    clock[0] += 1.0
    in_terminal.refresh(cell)
    assert file.getvalue() == "processes 0–3   100%|██| 5/5 [00:00<00:01, 5it/s]\n"


def test_terminal_redraws_bars_below_what_it_prints(cell, clock):
    file = Terminal()
    renderer = TerminalRenderer(file=file, clock=lambda: clock[0])
    for process_id in range(4):
        step = 2 + process_id
        cell.stream(process_id, "stderr", f"\r{step}0%|██| {step}/9 [00:01<00:01, 4it/s]")
    renderer.refresh(cell)
    bar = "processes 0–3   20%|██| 2/9 [00:01<00:01, 4it/s]\n"
    assert file.getvalue() == bar
    say(cell, "text\n")
    clock[0] += 1.0
    renderer.refresh(cell)
    back = "\x1b[1F\x1b[J"
    assert file.getvalue() == f"{bar}{back}\x1b[2mprocesses 0–3{OFF}   text\n{bar}"
    cell.close()
    renderer.refresh(cell, final=True)
    assert file.getvalue().rpartition(back)[2].count("|██|") == 4


def test_terminal_prints_rich_outputs_as_their_text(cell, file, in_terminal):
    say(cell, "before\n")
    for process_id in range(4):
        cell.display(process_id, PNG, {})
    cell.close()
    in_terminal.refresh(cell, final=True)
    assert file.getvalue() == f"processes 0–3\nbefore\n{PNG['text/plain']}\n"


def test_terminal_prints_notes_in_their_place(cell, clock, file, in_terminal):
    say(cell, "a\n", (0,))
    clock[0] += 0.1
    cell.note("note")
    clock[0] += 0.1
    say(cell, "b\n")
    in_terminal.refresh(cell)
    assert file.getvalue() == "process 0   a\nnote\nprocesses 0–3   b\n"


def test_terminal_prints_what_came_before_its_first_refresh(cell, file, in_terminal):
    for number in range(300):
        say(cell, f"line {number}\n")
    cell.close()
    in_terminal.refresh(cell, final=True)
    assert file.getvalue().count("\n") == 301


def test_terminal_cuts_a_flood_and_says_where_it_is(cell, clock, file, in_terminal, tmp_path):
    in_terminal.refresh(cell)
    for _ in range(20):
        for process_id in range(4):
            cell.stream(process_id, "stdout", "".join(f"{n} some line\n" for n in range(5000)))
        clock[0] += 0.3
        in_terminal.refresh(cell)
    cell.close()
    in_terminal.refresh(cell, final=True)
    assert len(file.getvalue()) < 20 * 4 * 12_000
    assert f"more, all of it in {tmp_path / 'cell' / 'process-0.txt'}\n" in file.getvalue()
    assert (tmp_path / "cell" / "process-0.txt").read_text().count("\n") == 100_000


@pytest.mark.parametrize("seed", range(40))
def test_terminal_prints_every_line_once_and_in_order(tmp_path, clock, seed):
    chance = random.Random(seed)
    cell = CellOutput(processes=range(3), folder=tmp_path, clock=lambda: clock[0])
    lines = {
        one: [f"line {n}" if chance.random() < 0.7 else f"own {one} {n}" for n in range(60)]
        for one in range(3)
    }
    left = {one: list(its) for one, its in lines.items()}
    printed = {one: [] for one in range(3)}

    def take(**options):
        for block in cell.take(**options):
            for one in block.processes:
                printed[one] += block.lines

    while any(left.values()):
        one = chance.choice([one for one in left if left[one]])
        for _ in range(chance.randrange(1, 9)):
            if left[one]:
                cell.stream(one, "stdout", f"{left[one].pop(0)}\n")
        clock[0] += chance.random() / 2
        take()
    cell.close()
    take(final=True)
    assert printed == lines


def test_terminal_renderer_writes_to_the_stdout_of_the_moment(cell, capsys):
    say(cell, "a\n")
    TerminalRenderer().refresh(cell)
    assert capsys.readouterr().out == "processes 0–3   a\n"


def test_how_things_stand_is_shown_below_all_else_and_nothing_of_it_is_left(cell, clock):
    file = Terminal()
    in_terminal = TerminalRenderer(file=file, clock=lambda: clock[0])
    for text in ("line 9 for 13 s", "line 9 for 14 s"):
        cell.meanwhile(text)
        clock[0] += 1.0
        in_terminal.refresh(cell)
        assert file.getvalue().endswith(f"{text}\n")
        assert cell.blocks()[-1].text == text
    cell.meanwhile(None)
    in_terminal.refresh(cell, final=True)
    assert file.getvalue().endswith("\x1b[1F\x1b[J")
    assert cell.blocks() == ()
