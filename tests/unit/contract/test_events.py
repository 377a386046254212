"""What parents say, through streams that cut lines, mix them, and carry what others say."""

from __future__ import annotations

import io
import json
import re

import pytest

from nbdist.contract.events import (
    LINE_CHARACTERS,
    Alive,
    Event,
    Events,
    Fault,
    Lines,
    OtherVersion,
    in_lines,
)
from nbdist.errors import WireError

LONG = Fault(text="ü <tag> " * LINE_CHARACTERS)


def said(task: int | None, event: Event) -> list[bytes]:
    """The lines in which an event is told."""
    stream = io.StringIO()
    Events(stream, task).send(event)
    return [line.encode() + b"\n" for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_and_is_heard_as_it_was_reported() -> None:
    (line,) = said(None, LONG)
    received = Lines().take(line)
    assert received is not None and received.time > 0
    assert (received.event, received.task) == (LONG, None)


def test_events_of_tasks_come_in_short_lines_that_may_be_mixed_with_those_of_others() -> None:
    one, other = said(1, LONG), said(12, Alive())
    assert len(one) > 3 and len(other) == 1
    assert all(len(line) < 1024 for line in one)  # as long as Slurm leaves them whole
    lines = Lines()
    assert [lines.take(line) for line in one[:2]] == [None, None]
    received = lines.take(other[0])
    assert received is not None and (received.event, received.task) == (Alive(), 12)
    *parts, last = [lines.take(line) for line in one[2:]]
    assert not any(parts)
    assert last is not None and (last.event, last.task) == (LONG, 1)


def test_pieces_that_open_mpi_tags_are_put_together_for_each_task() -> None:
    one, two = (b"".join(said(task, Alive())).rstrip() for task in (1, 2))
    lines = Lines()
    second = lines.take(b"[7,1]<stdout>:" + one[:9] + b"[7,2]<stdout>:" + two + b"\n")
    assert second is not None and second.task == 2
    first = lines.take(b"[7,1]<stdout>:" + one[9:] + b"\n")
    assert first is not None and first.task == 1


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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"event": "exited", "process_id": 1}', "message: object missing required field pid"),
        (
            b'{"event": "started", "process_id": "1", "pid": 2}',
            "message.process_id: expected int, got str",
        ),
        (b'{"event": "unheard of"}', "message.event: invalid value 'unheard of'"),
        (b'{"event": "alive", "more": 1}', "message: object contains unknown field more"),
        (b'nbdist 1 1 {"event": 3}', "message.event: expected str, got int"),
    ],
)
def test_an_event_of_another_shape_is_an_error_that_names_what_is_wrong(
    line: bytes, says: str
) -> None:
    with pytest.raises(WireError, match=f"^{re.escape(says)}"):
        Lines().take(line)


def test_of_a_host_with_another_version_only_that_is_read() -> None:
    received = Lines().take(b'{"event": "host", "host": "h1", "nbdist": "0.0.1", "new": []}')
    assert received is not None
    assert received.event == OtherVersion(host="h1", nbdist="0.0.1")


def test_a_line_behind_a_label_of_srun_is_heard() -> None:
    (line,) = said(3, Alive())
    received = Lines().take(b"3: " + line.replace(b"\n", b"\r\n"))
    assert received is not None and received.task == 3


def test_parts_end_where_the_event_ends() -> None:
    text = json.dumps({"event": "x", "text": "a" * (2 * LINE_CHARACTERS)})
    lines = in_lines(text, 5)
    assert [line.split(" ", 3)[:3] for line in lines[:-1]] == [["nbdist", "5", "0"]] * 2
    assert lines[-1].startswith("nbdist 5 1 ")
    assert "".join(line.split(" ", 3)[3] for line in lines) == text


def test_a_kernel_that_no_longer_listens_is_no_error() -> None:
    stream = io.StringIO()
    stream.close()
    Events(stream).send(Alive())
