"""Announcements of array shapes in the coordinator's store, compared before a program computes with the arrays.

Each process writes its shapes, and then reads what is there. No process waits for another: of two processes at
least the later one sees both, and refuses; the first waits in its collective in vain, until the cell ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from nbdist.engine.frameworks.jax.store import coordinator_client

FOLDER = "nbdist/announced"
"""Folder in the store: below it one folder for each thing that is compared, with a text for each process."""

NAMED = 3
"""Most shapes that are named."""


class Announced:
    """Announcements of this process, which stay until the next cell begins."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def begin(self) -> None:
        """Delete the announcements of the last cell."""
        keys, self._keys = self._keys, []
        client: Any = coordinator_client() if keys else None
        for key in keys if hasattr(client, "key_value_delete") else ():
            with contextlib.suppress(RuntimeError):  # the coordinator is gone, and the key with it
                client.key_value_delete(key)

    def others(self, what: str, name: str, shapes: Sequence[str]) -> tuple[str, int, str] | None:
        """Announce the shapes of a thing, and look for a process that has announced other shapes of it.

        Does nothing on threads other than the main one: only there is the order the same on all processes.

        Args:
          what: The place of the thing, such as the number of a program: the same on all processes.
          name: Announcements of another name are not compared.
          shapes: Texts from `shape_text`.

        Returns:
          The shapes here that differ, the other process, and its shapes; None if none is known to differ.
        """
        client = coordinator_client()
        if client is None or threading.current_thread() is not threading.main_thread():
            return None
        me = sys.modules["jax"].process_index()
        folder = f"{FOLDER}/{what}/"
        mine = json.dumps([name, list(shapes)])
        with contextlib.suppress(RuntimeError):  # the coordinator is gone
            client.key_value_set(f"{folder}{me}", mine)
            self._keys.append(f"{folder}{me}")
            for key, text in client.key_value_dir_get(folder):
                other, theirs = json.loads(text)
                if other == name and theirs != list(shapes):
                    here, there = named(shapes, theirs), named(theirs, shapes)
                    return here, int(key.rpartition("/")[2]), there
        return None


def named(shapes: Iterable[str], others: Sequence[str]) -> str:
    """Return the first of these shapes that differ from the others at the same place."""
    found = [s for i, s in enumerate(shapes) if i >= len(others) or others[i] != s]
    return ", ".join(found[:NAMED]) or "fewer arrays"


def shape_text(array: Any) -> str:
    """Return dtype and shape of an array, such as `float32[16,4]`."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"
