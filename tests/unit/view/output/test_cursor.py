"""What carriage return, backspace and escape sequences do to a process's text."""

from __future__ import annotations

import sys

import pytest

from nbdist.view.output.bounded_log import Limits
from nbdist.view.output.cursor import WIDTH
from nbdist.view.output.entries import Line
from nbdist.view.output.record import REACH, ProcessOutput

BOLD, RED, OFF = "\x1b[1m", "\x1b[31m", "\x1b[0m"


@pytest.fixture
def record(tmp_path):
    return ProcessOutput(
        0, limits=Limits.for_processes(1), path=tmp_path / "private" / "process-0.txt"
    )


def texts(record):
    return [entry.text for entry in record.column().entries]


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("50 %\r100 %", ["100 %"]),
        ("100 %\rdone", ["done%"]),
        ("12345\b\b\bxy", ["12xy5"]),
        ("ab\b\b\b\bc", ["cb"]),
        ("old\r\x1b[Knew", ["new"]),
        ("old text\r\x1b[2Knew", ["new"]),
        ("old\r   \rx", ["x"]),
        ("one\ntwo\x1b[1A\rONE\n\n", ["ONE", "two"]),
        ("one\ntwo\n\x1b[2A\x1b[J", []),
        ("a\tb", ["a\tb"]),
        ("ring\x07 me", ["ring me"]),
        ("\x1b]8;;https://x.org\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("a\x02b\x7f", ["a␂b␡"]),
        ("\x1b[999999Ax", ["x"]),
        ("a\x1b[3Cb", ["a   b"]),
    ],
)
def test_text_reads_as_on_a_terminal(record, written, lines):
    record.stream("stdout", written, 0.0)
    assert texts(record) == lines


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (f"{RED}red{OFF} not", [f"{RED}red{OFF} not"]),
        (f"{RED}red\nstill{OFF}", [f"{RED}red{OFF}", f"{RED}still{OFF}"]),
        (f"{BOLD}{RED}x{OFF}", ["\x1b[1;31mx\x1b[0m"]),
        (f"{RED}abc{OFF}\rX", [f"X{RED}bc{OFF}"]),
        ("\x1b[38;5;208mx", ["\x1b[38;5;208mx\x1b[0m"]),
        ("\x1b[38;2;1;2;3mx\x1b[39my", ["\x1b[38;2;1;2;3mx\x1b[0my"]),
        ("\x1b[mplain", ["plain"]),
    ],
)
def test_each_line_opens_and_closes_its_own_colors(record, written, lines):
    record.stream("stdout", written, 0.0)
    assert texts(record) == lines


def test_any_cut_into_messages_reads_the_same(record, tmp_path):
    written = f"a{RED}b{OFF}\r\nold\rnew\n\x1b]0;title\x07x\x1b[1A\rN\n\nend"
    record.stream("stdout", written, 0.0)
    for at in range(1, len(written)):
        other = ProcessOutput(1, limits=Limits.for_processes(1), path=tmp_path / "other.txt")
        other.stream("stdout", written[:at], 0.0)
        other.stream("stdout", written[at:], 0.0)
        assert texts(other) == texts(record), at


def test_line_left_open_is_ended_by_another_stream(record):
    record.stream("stdout", "a", 0.0)
    record.stream("stderr", "b\n", 0.0)
    record.stream("stdout", "c\n", 0.0)
    assert texts(record) == ["a", "b", "c"]


def test_bar_stays_below_the_prints_of_the_other_stream(record):
    for step in range(3):
        record.stream("stderr", f"\r{step}/2", 0.0)
        record.stream("stdout", f"step {step}\n", 0.0)
        assert texts(record)[-1] == f"{step}/2"
    record.stream("stderr", "\r2/2\n", 0.0)
    record.stream("stdout", "after\n", 0.0)
    assert texts(record) == ["step 0", "step 1", "step 2", "2/2", "after"]


def test_bar_that_is_not_redrawn_again_ends_where_it_was_drawn(record):
    record.stream("stderr", "\rdownloaded", 0.0)
    record.stream("stdout", "done\n", 0.0)
    record.finish(0.0)
    assert texts(record) == ["downloaded", "done"]


def test_warning_behind_an_open_bar_gets_its_own_line(record):
    record.stream("stderr", "\r1/2", 0.0)
    record.stream("stdout", "print\n", 0.0)
    record.stream("stderr", "careful\n", 0.0)
    record.finish(0.0)
    assert texts(record) == ["1/2", "print", "careful"]


def test_bar_that_wiped_itself_out_leaves_no_empty_line(record):
    record.stream("stderr", "\r1/2\r   \r", 0.0)
    record.stream("stdout", "print\n", 0.0)
    record.stream("stderr", "careful\n", 0.0)
    assert texts(record) == ["print", "careful"]


def test_cursor_does_not_go_back_over_a_display(record):
    record.stream("stdout", "first\n", 0.0)
    record.display({"image/png": "aaaa"}, {}, None, 0.0)
    record.stream("stdout", "\x1b[1A\rsecond\n", 0.0)
    assert texts(record) == ["first", "[image/png]", "second"]


def test_bar_redrawn_ten_thousand_times_is_one_row(record):
    for step in range(10_000):
        record.stream("stderr", f"\r{step:5}/10000 {'█' * (step % 50)}", 0.0)
    assert len(record.column().entries) == 1
    assert len(record._window) == 1


def test_bar_parked_above_thousands_of_prints_is_still_the_one_redrawn(record):
    record.stream("stderr", "\r0/2", 0.0)
    for number in range(10 * REACH):
        record.stream("stdout", f"print {number}\n", 0.0)
    record.stream("stderr", "\r1/2", 0.0)
    assert texts(record).count("1/2") == 1
    assert "0/2" not in texts(record)
    assert len(record._window) <= REACH + 1


def test_overlong_line_goes_on_in_rows_that_say_so(record):
    record.stream("stdout", "x" * (2 * WIDTH + 1) + "\n", 0.0)
    lines = [entry for entry in record.column().entries if isinstance(entry, Line)]
    assert [(len(line.text), line.wrapped) for line in lines] == [
        (WIDTH, True),
        (WIDTH, True),
        (1, False),
    ]


def test_nested_tqdm_bars_leave_what_a_terminal_shows(record):
    tqdm = pytest.importorskip("tqdm").tqdm

    class Stream:
        def write(self, text):
            record.stream("stderr", text, 0.0)

        def flush(self):
            pass

    for _ in tqdm(range(2), desc="epochs", file=Stream(), ncols=60, position=0):
        for _ in tqdm(
            range(3), desc="steps", file=Stream(), ncols=60, position=1, leave=False, mininterval=0
        ):
            # The bar inside stands below the one outside while it runs.
            assert [text.split(":")[0] for text in texts(record)] == ["epochs", "steps"]
    record.stream("stderr", "after\n", 0.0)
    assert [text.split(":")[0] for text in texts(record)] == ["epochs", "after"]
    assert "2/2" in texts(record)[0]


def test_rows_out_of_reach_give_up_their_characters(record):
    record.stream("stdout", "".join(f"{'y' * 1000}\n" for _ in range(REACH)), 0.0)
    assert sum(sys.getsizeof(row._cells or "") for row in record._window) < REACH * 100


def test_junk_of_all_bytes_stays_printable(record):
    record.stream("stdout", bytes(range(256)).decode("latin-1") * 3, 0.0)
    record.finish(0.0)
    shown = "\n".join(texts(record))
    assert not set(shown) & {chr(code) for code in range(32)} - {"\t", "\n", "\x1b"}
