"""What a person asks the live view for, beyond what is sent to it anyway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nbdist.errors import NbdistError
from nbdist.view.feed import Feed
from nbdist.view.kernel import between_cells


def answer_values(
    feed: Feed, kernel: Any, asked: Mapping[str, Any], send: Callable[[dict[str, Any]], None]
) -> None:
    """Answers `{"type": "values", "path": …}` by the same with `text` and `picture`, or `error`.

    The processes are asked on the thread that runs cells, so after the cell that runs.

    Args:
      feed: Of the session.
      kernel: The Jupyter kernel.
      asked: The message; one of another form is dropped.
      send: Sends to the view that has asked.
    """
    path = asked.get("path")
    if not isinstance(path, str):
        return

    def answer() -> None:
        send({"type": "values", "path": path, **_values(feed, path)})

    between_cells(kernel, answer)


def _values(feed: Feed, path: str) -> dict[str, Any]:
    if feed.values is None:
        return {"error": "No session is running."}
    try:
        return feed.values(path)
    except NbdistError as error:
        return {"error": str(error)}
