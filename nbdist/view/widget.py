"""Widgets of this kernel: the view in an output of a notebook, and mirrors of widgets that processes have made.

Imported where a widget is shown: anywidget and ipywidgets take a while.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from ipywidgets import Widget

from nbdist.contract.page import MIME_TYPE, AskValues, Frame, Hello, ViewTraits, read_request
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError
from nbdist.view.channel import (
    Broadcast,
    answer_values,
    broadcast,
    forget_reply_shell,
    running_kernel,
)
from nbdist.view.feed import Feed, Plain, Source


def packed(frame: Frame) -> str:
    """Return a frame as a notebook keeps it: JSON, compressed by gzip, in base64; the same for the same frame.

    Plain JSON would be large: a notebook has each number of a list on a line of its own.
    """
    text = json.dumps(encode(frame), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


SCRIPT = Path(__file__).parents[1] / "static" / "widget.js"
"""The browser part, as it is built."""


class View(anywidget.AnyWidget):
    """A view of the session of `feed`, or of its one snapshot.

    Frames of a session are sent as custom messages, not as a trait, so that they are not saved in the notebook;
    they begin when a browser reports that it shows the widget. A snapshot that never changes is also in the
    output, and so in the notebook, for pages with nbdist's extension.

    Args:
      feed: The source of the frames.
      view_id: The name of this view's still picture, which the browser hides while the view lives.
      focus: The path of the array to pick first, or of a branch such as `model`: then the branch's largest array
        that is cut into shards is picked, and by default the largest of all.
      strip: Whether the view begins as the session in one line, and opens by a click.

    Raises:
      NbdistError: The browser part has not been built.
    """

    _esm = SCRIPT if SCRIPT.is_file() else ""
    view_id = traitlets.Unicode().tag(sync=True)
    focus = traitlets.Unicode().tag(sync=True)
    form = traitlets.Enum(("view", "strip"), default_value="view").tag(sync=True)

    def __init__(
        self, feed: Source, *, view_id: str, focus: str | None = None, strip: bool = False
    ) -> None:
        if not SCRIPT.is_file():
            raise NbdistError(
                f"The browser part of nbdist is not built: {SCRIPT} is missing. "
                "Install nbdist with pip, or run `jlpm build` in labextension/."
            )
        super().__init__(view_id=view_id, focus=focus or "", form="strip" if strip else "view")
        self._feed = feed
        self._kernel = running_kernel()
        if isinstance(feed, Feed):  # the side panel is the session's, never a plan's
            Broadcast(feed).open()
        self.on_msg(self._received)

    def open(self) -> None:
        """Open the comm to the browser; called by ipywidgets."""
        super().open()
        forget_reply_shell(self.comm)

    def take(self, frame: Plain) -> None:
        """Send one frame; called by the feed, on its thread."""
        comm = self.comm
        if comm is None or self._kernel is None:
            self._feed.detach(self)
            return
        broadcast(self._kernel, comm.comm_id, {"method": "custom", "content": frame})

    def _received(self, _: View, content: object, buffers: object) -> None:
        match read_request(content):
            case Hello():
                self._feed.attach(self)
                self._feed.refresh(self)
            case AskValues(path=path):
                answer_values(self._feed, self._kernel, path, self.take)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        whole = self._feed.whole
        traits = ViewTraits(
            view_id=self.view_id,
            focus=self.focus,
            session=self._feed.session or "",
            form=self.form,
            packed=None if whole is None else packed(whole),
        )
        payload = {"model_id": self.model_id, **encode(traits)}
        # A front end that knows neither the MIME type nor widgets shows nothing here, only the picture after it.
        return {**data, "text/plain": "", MIME_TYPE: payload}, metadata


KIND = ("_model_name", "_model_module", "_model_module_version")
"""The keys of a state by which front ends find a model's class."""


class Mirror(Widget):
    """A model in this kernel that mirrors a process's model in every front end.

    Its state is a plain dict; messages from the front end go to `act`.
    """

    def __init__(self, model_id: str, state: dict[str, Any], act: Callable[..., None]) -> None:
        self._mirrored = state
        self._act = act
        super().__init__(model_id=model_id)
        self.on_msg(self._custom)

    def open(self) -> None:
        """Make the model in the front ends; called once, by `Widget`."""
        for name in KIND:
            self.set_trait(name, self._mirrored[name])
        super().open()

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """Return the state, or some keys of it; all of it counts as changed."""
        if key is None:
            return dict(self._mirrored)
        keys = [key] if isinstance(key, str) else key
        return {one: self._mirrored[one] for one in keys if one in self._mirrored}

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Handle a user's change in a front end: pass it to the processes, or undo it."""
        before = {key: self._mirrored.get(key) for key in sync_data}
        self._mirrored.update(sync_data)
        try:
            self._act({"method": "update", "state": dict(sync_data), "buffer_paths": []}, ())
        except BaseException:
            self.follow(before)
            raise

    def _custom(self, _: Any, content: Any, buffers: Any) -> None:
        self._act({"method": "custom", "content": content}, tuple(map(bytes, buffers or ())))

    def follow(self, state: Mapping[str, Any]) -> None:
        """Take the state of the mirrored model, and send the changes."""
        new = [key for key, value in state.items() if self._mirrored.get(key) != value]
        self._mirrored.update(state)
        if new:
            self.send_state(new)
