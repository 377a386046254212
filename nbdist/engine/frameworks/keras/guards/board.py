"""A board that all processes share: one short text for each process, kept by JAX's coordinator.

No device takes part, so nothing here can wait for a process that does something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FOLDER = "nbdist/calls"


class Board:
    """The board, as one process uses it; each call is one request to the coordinator (0.4 ms locally).

    Args:
      client: A function such as `nbdist.engine.frameworks.jax.store.coordinator_client`; called for each request,
        since a repair joins another coordinator.
      process_id: The process whose text `put` replaces.
    """

    def __init__(self, client: Callable[[], Any | None], process_id: int) -> None:
        self._client = client
        self._key = f"{FOLDER}/{process_id}"

    def put(self, text: str) -> None:
        """Replace this process's text.

        Raises:
          RuntimeError: The coordinator cannot be reached.
        """
        self._connected().key_value_set(self._key, text, allow_overwrite=True)

    def read(self) -> dict[int, str]:
        """Return the texts of all processes that have put one, by process id.

        Raises:
          RuntimeError: The coordinator cannot be reached.
        """
        entries = self._connected().key_value_dir_get(FOLDER)
        return {int(key.rpartition("/")[2]): text for key, text in entries}

    def _connected(self) -> Any:
        client = self._client()
        if client is None:
            raise RuntimeError("JAX is not connected to a coordinator")
        return client
