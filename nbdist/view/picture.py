"""One view in a notebook or a terminal: the live widget, and the still picture that stays when it goes.

They are two outputs. The widget alone would leave "model not found" in a saved notebook; the still picture is
updated in place by its display id, and hidden by the browser while the widget beside it lives.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from nbdist.contract.snapshot import Snapshot
from nbdist.errors import ArrayError
from nbdist.view.source import Source
from nbdist.view.still import still_html
from nbdist.view.text import mesh_text

WIDTH = 100
"""Columns of the text form."""


class Picture:
    """Shows the session, and where one array lies when a path is given.

    Args:
      feed: The widget's source of frames.
      snapshot: Returns what is known now.
      path: The array to show first, or an object that holds arrays: of a model its largest array that is cut.
    """

    def __init__(
        self, feed: Source, snapshot: Callable[[], Snapshot], *, path: str | None = None
    ) -> None:
        self._feed = feed
        self._snapshot = snapshot
        self._path = path
        self._view_id = uuid.uuid4().hex[:12]
        self._still: Any = None
        self._shown: object = None

    def show(self, *, in_notebook: bool) -> None:
        """Display the picture.

        Raises:
          ArrayError: No array is known under the path; the nearest names are in the text.
        """
        text = self.text()
        if not in_notebook:
            print(text)
            return
        from IPython.display import display

        from nbdist.view.widget import View

        view = View(self._feed, view_id=self._view_id, focus=self._path)
        display(view)
        self._shown = _content(self._snapshot())
        self._still = display(self._bundle(), raw=True, display_id=True)

    def follow(self, snapshot: Snapshot) -> None:
        """Update the still picture when its content has changed and no cell runs.

        Every update makes the notebook unsaved, so seconds and bytes that merely change do not count.
        """
        content = _content(snapshot)
        if self._still is None or snapshot.state == "running" or content == self._shown:
            return
        try:
            bundle = self._bundle()
        except ArrayError:
            # The array is gone since; the last picture of it stays.
            return
        self._shown = content
        self._still.update(bundle, raw=True)

    def text(self) -> str:
        """Return the same as text; for a program the text about it."""
        program = self._snapshot().program
        if program is not None:
            return program.text
        return mesh_text(self._snapshot(), path=self._path, mesh=None, width=WIDTH)

    def _bundle(self) -> dict[str, str]:
        return {
            "text/plain": self.text(),
            "text/html": still_html(self._snapshot(), path=self._path, view_id=self._view_id),
        }


def _content(snapshot: Snapshot) -> object:
    """Return the content of a still picture, without values that change all the time."""
    states = tuple((one.state, one.error, one.progress) for one in snapshot.processes)
    contents = (snapshot.meshes, snapshot.arrays, snapshot.distributions, snapshot.models)
    return (snapshot.state, states, *contents, snapshot.notices, snapshot.program)
