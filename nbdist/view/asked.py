"""Answers to requests of the live view, beyond the frames that it gets anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdist.contract.messages import Values, ValuesPicture, plain
from nbdist.errors import NbdistError
from nbdist.spelling import Door, through
from nbdist.view.kernel import between_cells
from nbdist.view.source import Source


def answer_values(
    feed: Source, kernel: Any, path: str, send: Callable[[dict[str, Any]], None]
) -> None:
    """Answer a request for a summary of the array under a path.

    The processes are asked on the thread that runs cells, so after the running cell.

    Args:
      feed: The session's feed.
      kernel: The Jupyter kernel.
      path: The array's path.
      send: Sends to the view that has asked.
    """

    def answer() -> None:
        send(plain(_values(feed, path)))

    between_cells(kernel, answer)


def _values(feed: Source, path: str) -> Values:
    if feed.values is None:
        return Values(path=path, error="No session is running.")
    try:
        with through(Door.MAGIC):
            found = feed.values(path)
    except NbdistError as error:
        return Values(path=path, error=str(error))
    picture = found["picture"] and ValuesPicture(**found["picture"])
    return Values(path=path, text=found["text"], picture=picture)
