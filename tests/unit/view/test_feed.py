"""The feed: what it sends, to whom, and how often."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import encode
from nbdist.errors import Notice
from nbdist.view.feed import BEAT_SECONDS, PERIOD_SECONDS, Feed, Frame

FIRST = Snapshot(session="s", sequence=1, time=1.0, state="idle")


class Sink:
    """Keeps every frame, and what a browser would make of them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.known: dict[str, object] | None = None
        self.missed = 0
        self._received = threading.Condition()

    def take(self, frame: Frame) -> None:
        with self._received:
            self.frames.append(json.loads(json.dumps(frame)))
            if frame["base"] is None:
                self.known = dict(frame["snapshot"])
            elif self.known is None or frame["base"] != self._sequence:
                self.missed += 1
            else:
                self.known |= frame["snapshot"]
            self._sequence = frame["sequence"]
            self._received.notify()

    def wait(self, until: Callable[[Sink], bool], *, seconds: float = 5) -> None:
        with self._received:
            assert self._received.wait_for(lambda: until(self), seconds), self.frames


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed()
    yield made
    made.close()


def test_a_sink_gets_a_full_frame_first_and_then_only_what_changed(feed: Feed) -> None:
    sink = Sink()
    feed.push(FIRST)
    feed.attach(sink)
    sink.wait(lambda s: len(s.frames) == 1)
    assert sink.frames[0]["base"] is None
    assert sink.frames[0]["snapshot"] == json.loads(json.dumps(encode(FIRST)))
    feed.push(structs.replace(FIRST, sequence=2, time=2.0, state="running"))
    sink.wait(lambda s: len(s.frames) == 2)
    assert sink.frames[1]["snapshot"] == {"state": "running", "sequence": 2, "time": 2.0}
    assert sink.frames[1]["base"] == sink.frames[0]["sequence"]


def test_frames_add_up_to_the_newest_snapshot_for_every_sink(feed: Feed) -> None:
    early, late = Sink(), Sink()
    feed.attach(early)
    last = FIRST
    for number in range(2, 30):
        notice = Notice(level="warn", title=str(number), text="")
        last = structs.replace(FIRST, sequence=number, time=float(number), notices=(notice,))
        feed.push(last)
        if number == 15:
            feed.attach(late)
        time.sleep(0.02)
    newest = json.loads(json.dumps(encode(last)))
    for sink in (early, late):
        sink.wait(lambda s: s.known == newest)
        assert sink.missed == 0


def test_at_most_ten_frames_a_second_are_sent_and_the_newest_is_never_lost(feed: Feed) -> None:
    sink = Sink()
    feed.attach(sink)
    started = time.monotonic()
    state = FIRST
    while time.monotonic() - started < 0.5:
        state = structs.replace(state, sequence=state.sequence + 1, arrays_omitted=state.sequence)
        feed.push(state)
        time.sleep(0.002)
    sink.wait(lambda s: s.known is not None and s.known["sequence"] == state.sequence)
    elapsed = time.monotonic() - started
    assert len(sink.frames) <= elapsed / PERIOD_SECONDS + 2


def test_a_snapshot_that_changes_nothing_is_only_said_to_be_the_same(feed: Feed) -> None:
    sink = Sink()
    feed.attach(sink)
    feed.push(FIRST)
    sink.wait(lambda s: len(s.frames) == 1)
    started = time.monotonic()
    number = 1
    while time.monotonic() < started + 2.5 * BEAT_SECONDS:
        number += 1
        feed.push(structs.replace(FIRST, sequence=number, time=float(number)))
        time.sleep(0.05)
    sink.wait(lambda s: len(s.frames) > 1)
    beats = list(sink.frames[1:])
    assert len(beats) <= (time.monotonic() - started) / BEAT_SECONDS + 1
    assert all(f["snapshot"] == {} and f["base"] == f["sequence"] for f in beats)


def test_nothing_is_said_to_be_new_when_nothing_is_pushed(feed: Feed) -> None:
    sink = Sink()
    feed.attach(sink)
    feed.push(FIRST)
    sink.wait(lambda s: len(s.frames) == 1)
    time.sleep(1.5 * BEAT_SECONDS)
    assert len(sink.frames) == 1


def test_the_full_state_is_repeated_with_its_age(feed: Feed) -> None:
    sink = Sink()
    feed.attach(sink, repeat_seconds=0.2)
    feed.push(FIRST)
    sink.wait(lambda s: len(s.frames) >= 3)
    assert [f["base"] for f in sink.frames] == [None] * len(sink.frames)
    assert len({f["sequence"] for f in sink.frames}) == 1
    assert sink.frames[-1]["age"] > sink.frames[0]["age"]


def test_a_full_frame_comes_on_request(feed: Feed) -> None:
    sink = Sink()
    feed.attach(sink)
    feed.push(FIRST)
    sink.wait(lambda s: len(s.frames) == 1)
    feed.refresh(sink)
    sink.wait(lambda s: len(s.frames) == 2)
    assert sink.frames[1]["base"] is None


def test_a_sink_that_left_hears_nothing_and_attaching_twice_changes_nothing(feed: Feed) -> None:
    sink, other = Sink(), Sink()
    feed.attach(sink)
    feed.attach(sink)
    feed.attach(other)
    feed.push(FIRST)
    other.wait(lambda s: len(s.frames) == 1)
    assert len(sink.frames) == 1
    feed.detach(sink)
    feed.push(structs.replace(FIRST, sequence=2, state="running"))
    other.wait(lambda s: len(s.frames) == 2)
    assert len(sink.frames) == 1


def test_closing_sends_the_last_snapshot_and_ends_the_thread() -> None:
    feed, sink = Feed(), Sink()
    feed.attach(sink)
    feed.push(FIRST)
    sink.wait(lambda s: len(s.frames) == 1)
    feed.push(structs.replace(FIRST, sequence=2, state="stopped"))
    feed.close()
    assert sink.known is not None
    assert sink.known["state"] == "stopped"
    assert "nbdist-feed" not in {thread.name for thread in threading.enumerate()}
    feed.attach(sink)
    feed.close()


def test_without_a_sink_nothing_is_encoded(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()
    feed.attach(sink)
    feed.push(FIRST)
    sink.wait(lambda s: len(s.frames) == 1)
    feed.detach(sink)
    encoded: list[object] = []
    monkeypatch.setattr("nbdist.view.feed.encode", encoded.append)
    feed.push(structs.replace(FIRST, sequence=2, state="running"))
    time.sleep(3 * PERIOD_SECONDS)
    assert encoded == []


class Failing(Sink):
    """A sink that cannot send while `broken`."""

    broken = False

    def take(self, frame: Frame) -> None:
        if self.broken:
            raise OSError("the socket is closed")
        super().take(frame)


def test_a_sink_that_fails_keeps_no_other_from_its_frames_and_gets_all_when_it_is_back(
    feed: Feed,
) -> None:
    said: list[str] = []
    feed.on_fault = said.append
    bad, good = Failing(), Sink()
    feed.push(FIRST)
    feed.attach(bad)
    feed.attach(good)
    bad.wait(lambda s: len(s.frames) == 1)
    bad.broken = True
    feed.push(structs.replace(FIRST, sequence=2, state="running"))
    good.wait(lambda s: s.known is not None and s.known["state"] == "running")
    bad.broken = False
    bad.wait(lambda s: s.known is not None and s.known["state"] == "running")
    assert (bad.missed, good.missed) == (0, 0)
    assert bad.frames[-1]["base"] is None or bad.frames[-1]["snapshot"] == {}
    assert len(said) == 1
    assert "OSError: the socket is closed" in said[0]


def test_a_snapshot_that_cannot_be_encoded_is_left_out_and_the_next_is_whole(feed: Feed) -> None:
    sink = Sink()
    feed.push(FIRST)
    feed.attach(sink)
    sink.wait(lambda s: len(s.frames) == 1)
    wrong = structs.replace(FIRST, sequence=2, state="running", notices=(object(),))  # type: ignore[arg-type]
    feed.push(wrong)
    time.sleep(3 * PERIOD_SECONDS)
    notice = Notice(level="warn", title="t", text="")
    feed.push(structs.replace(FIRST, sequence=3, state="running", notices=(notice,)))
    sink.wait(lambda s: s.known is not None and s.known["state"] == "running")
    assert sink.known is not None
    assert sink.known["notices"] == json.loads(json.dumps([encode(notice)]))
    assert sink.missed == 0
