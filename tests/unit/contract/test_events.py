"""What parents say, through streams that cut lines, mix them, and carry what others say."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from nbdist.contract.events import LINE_CHARACTERS, Events, Lines, in_lines

LONG = {"event": "host", "text": "ü <tag> " * LINE_CHARACTERS}


def said(task: int | None, **event: Any) -> list[bytes]:
    """The lines in which an event is told."""
    stream = io.StringIO()
    Events(stream, task).send(event.pop("event"), **event)
    return [line.encode() + b"\n" for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_and_is_heard_as_it_was_told() -> None:
    (line,) = said(None, **LONG)
    heard = Lines().take(line)
    assert heard is not None and heard.pop("time") > 0
    assert heard == LONG


def test_events_of_tasks_come_in_short_lines_that_may_be_mixed_with_those_of_others() -> None:
    one, other = said(1, **LONG), said(12, event="alive")
    assert len(one) > 3 and len(other) == 1
    assert all(len(line) < 1024 for line in one)  # as long as Slurm leaves them whole
    lines = Lines()
    assert [lines.take(line) for line in one[:2]] == [None, None]
    heard = lines.take(other[0])
    assert heard is not None and (heard["event"], heard["task"]) == ("alive", 12)
    *parts, last = [lines.take(line) for line in one[2:]]
    assert not any(parts)
    assert last is not None and (last["text"], last["task"]) == (LONG["text"], 1)


def test_pieces_that_open_mpi_tags_are_put_together_for_each_task() -> None:
    one, two = (b"".join(said(task, event="alive")).rstrip() for task in (1, 2))
    lines = Lines()
    second = lines.take(b"[7,1]<stdout>:" + one[:9] + b"[7,2]<stdout>:" + two + b"\n")
    assert second is not None and second["task"] == 2
    first = lines.take(b"[7,1]<stdout>:" + one[9:] + b"\n")
    assert first is not None and first["task"] == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"Welcome to h1\n",
        b"{not json}\n",
        b'{"no": "event"}\n',
        b'["event"]\n',
        b"nbdist 1 1 {\n",
        b"nbdist one 1 {}\n",
        b"\xff\xfe\n",
    ],
)
def test_what_others_write_is_no_event(line: bytes) -> None:
    assert Lines().take(line) is None


def test_a_line_behind_a_label_of_srun_is_heard() -> None:
    (line,) = said(3, event="alive")
    heard = Lines().take(b"3: " + line.replace(b"\n", b"\r\n"))
    assert heard is not None and heard["task"] == 3


def test_parts_end_where_the_event_ends() -> None:
    text = json.dumps({"event": "x", "text": "a" * (2 * LINE_CHARACTERS)})
    lines = in_lines(text, 5)
    assert [line.split(" ", 3)[:3] for line in lines[:-1]] == [["nbdist", "5", "0"]] * 2
    assert lines[-1].startswith("nbdist 5 1 ")
    assert "".join(line.split(" ", 3)[3] for line in lines) == text


def test_a_kernel_that_no_longer_listens_is_no_error() -> None:
    stream = io.StringIO()
    stream.close()
    Events(stream).send("alive")
