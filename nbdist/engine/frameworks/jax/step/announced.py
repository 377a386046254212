"""What must be the same on all processes, compared in the coordinator's store before anything is computed of it.

Each process writes what it has, and then reads what is there. Nobody is waited for: of two processes at least the
later one sees both, and refuses; the first waits in its collective, for what does not come, until the cell ends.
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
"""Below it a folder for each thing that is compared, and in that a text for each process."""

NAMED = 3
"""Shapes that are named."""


class Announced:
    """What this process has written, until the next cell begins."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def begin(self) -> None:
        """Takes back what was written in the cell before."""
        keys, self._keys = self._keys, []
        client: Any = coordinator_client() if keys else None
        for key in keys if hasattr(client, "key_value_delete") else ():
            with contextlib.suppress(RuntimeError):  # the coordinator is gone, and the key with it
                client.key_value_delete(key)

    def others(self, what: str, name: str, shapes: Sequence[str]) -> tuple[str, int, str] | None:
        """Writes the shapes of something, and looks for a process on which it has others.

        Only on the main thread, where the same comes in the same order on all processes.

        Args:
          what: Its place, such as the number of a program: the same on all processes.
          name: Of another name nothing is concluded.
          shapes: As `shape_text` says them.

        Returns:
          The shapes here, another process, and those there; None where none is known to have others.
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
    """The first of these shapes that are not at the same place among the others."""
    found = [s for i, s in enumerate(shapes) if i >= len(others) or others[i] != s]
    return ", ".join(found[:NAMED]) or "fewer arrays"


def shape_text(array: Any) -> str:
    """`float32[16,4]`."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"
