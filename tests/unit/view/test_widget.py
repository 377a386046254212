"""The widget: what it shows to a notebook and when frames reach it."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from jax.sharding import PartitionSpec as P

import nbdist
from nbdist.contract.page import MIME_TYPE
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode, encode
from nbdist.errors import ArrayError, NbdistError
from nbdist.view import widget
from nbdist.view.feed import Feed, OneFrame
from nbdist.view.picture import Picture
from nbdist.view.widget import View, packed
from tests.waiting import wait_for

IDLE = Snapshot(session="s", sequence=1, time=1.0, state="idle")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser part, so that these tests need no build."""
    path = tmp_path / "widget.js"
    path.write_text("export default {}")
    monkeypatch.setattr(widget, "SCRIPT", path)


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed()
    yield made
    made.close()


def test_an_unknown_array_is_an_error_before_anything_is_drawn(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []
    monkeypatch.setattr("IPython.display.display", lambda *args, **options: drawn.append(args))
    with pytest.raises(ArrayError, match="'x'"):
        Picture(feed, lambda: IDLE, path="x").show(in_notebook=True)
    assert drawn == []


def _sent_by(view: View, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Lets the view send, and answers the list that fills with it."""
    sent: list[dict[str, Any]] = []
    view._kernel = SimpleNamespace()
    monkeypatch.setattr(widget, "broadcast", lambda kernel, comm_id, data: sent.append(data))
    return sent


def _wait_for(sent: list[dict[str, Any]], count: int) -> None:
    wait_for(lambda: len(sent) >= count)
    assert len(sent) == count


def test_the_output_names_the_view_the_model_and_the_session(feed: Feed) -> None:
    feed.push(IDLE)
    view = View(feed, view_id="v1", focus="params.w")
    bundle = view._repr_mimebundle_()
    assert bundle is not None
    data, _ = bundle
    assert data[MIME_TYPE] == {
        "view_id": "v1",
        "model_id": view.model_id,
        "focus": "params.w",
        "form": "view",
        "session": "s",
        "packed": None,
    }
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert data["text/plain"] == ""  # the picture beside it is the text


def test_the_output_of_what_never_changes_has_all_of_it() -> None:
    view = View(OneFrame(IDLE), view_id="v1")
    bundle = view._repr_mimebundle_()
    assert bundle is not None
    frame = json.loads(gzip.decompress(base64.b64decode(bundle[0][MIME_TYPE]["packed"])))
    assert (frame["type"], frame["base"]) == ("frame", None)
    assert decode(Snapshot, frame["snapshot"]) == IDLE


def test_frames_begin_when_a_browser_says_hello(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = View(feed, view_id="v1")
    sent = _sent_by(view, monkeypatch)
    feed.push(IDLE)
    time.sleep(0.3)
    assert sent == []
    view._received(view, {"type": "hello"}, [])
    _wait_for(sent, 1)
    assert sent[0]["method"] == "custom"
    assert sent[0]["content"]["base"] is None
    assert sent[0]["content"]["snapshot"]["state"] == "idle"
    view._received(view, {"type": "hello"}, [])
    _wait_for(sent, 2)


def test_frames_are_no_traits_so_they_are_not_saved_with_the_notebook(feed: Feed) -> None:
    view = View(feed, view_id="v1")
    ours = {key for key in view.keys if not key.startswith("_")} - {"layout", "tabbable", "tooltip"}
    assert ours == {"view_id", "focus", "form"}


def test_a_closed_widget_hears_nothing_more(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    view = View(feed, view_id="v1")
    sent = _sent_by(view, monkeypatch)
    view._received(view, {"type": "hello"}, [])
    view.close()
    feed.push(IDLE)
    feed.close()
    assert sent == []


def test_a_missing_build_is_said_with_what_to_run(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(widget, "SCRIPT", tmp_path / "nowhere.js")
    with pytest.raises(NbdistError, match=r"not built: .*nowhere\.js is missing.*jlpm build"):
        View(feed, view_id="v1")


def test_the_largest_pod_with_a_thousand_arrays_is_small_in_a_notebook() -> None:
    weights = jax.ShapeDtypeStruct((8960, 8960), "bfloat16")
    blocks = [{"up": weights, "down": weights} for _ in range(500)]
    plan = nbdist.plan(
        {"blocks": blocks},
        [("up", P("data", "model")), ("down", P("model", "data"))],
        topology="v5p:16x20x28",
        mesh="data=560,model=16",
    )
    picture = plan.picture()
    assert picture is not None
    frame = picture._feed.whole
    assert (len(frame.snapshot["devices"]), len(frame.snapshot["arrays"])) == (8960, 1000)
    text = packed(frame)
    assert json.loads(gzip.decompress(base64.b64decode(text))) == json.loads(
        json.dumps(encode(frame))
    )
    data, _ = View(picture._feed, view_id="v")._repr_mimebundle_()
    assert data[MIME_TYPE]["packed"] == text
    # As notebooks are written; as it is it would be 3.4 MB.
    assert len(json.dumps([data, picture._bundle()], indent=1)) < 500_000
