"""Widget of the view in an output of a notebook, made with anywidget."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from nbdist.contract.page import MIME_TYPE, AskValues, Frame, Hello, ViewTraits, plain, read_request
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
    text = json.dumps(plain(frame), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


SCRIPT = Path(__file__).parents[1] / "static" / "widget.js"
"""The browser part, as it is built."""


class View(anywidget.AnyWidget):
    """A view of the session of `feed`, or of its one snapshot.

    Frames of a session go out as custom messages and not as a trait, so that they do not end up in the saved
    notebook; they begin when a browser says that it shows the widget. What never changes is in the output as well,
    for pages with nbdist's extension, and so in the notebook.

    Args:
      feed: The source of the frames.
      view_id: The name of this view's still picture, which the browser hides while the view lives.
      focus: The path of the array to pick first, or of a branch such as `model`: then the branch's largest array
        that is cut into pieces is picked, and by default the largest of all.

    Raises:
      NbdistError: The browser part has not been built.
    """

    _esm = SCRIPT if SCRIPT.is_file() else ""
    view_id = traitlets.Unicode().tag(sync=True)
    focus = traitlets.Unicode().tag(sync=True)

    def __init__(self, feed: Source, *, view_id: str, focus: str | None = None) -> None:
        if not SCRIPT.is_file():
            raise NbdistError(
                f"The browser part of nbdist is not built: {SCRIPT} is missing. "
                "Install nbdist with pip, or run `jlpm build` in labextension/."
            )
        super().__init__(view_id=view_id, focus=focus or "")
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
            packed=None if whole is None else packed(whole),
        )
        payload = {"model_id": self.model_id, **plain(traits)}
        # What knows neither the MIME type nor widgets shows nothing here, and then the picture that follows.
        return {**data, "text/plain": "", MIME_TYPE: payload}, metadata
