"""Meetings of the processes of a group of devices: a process that waits for absent ones is freed, from any thread.

On CPU gloo connects the devices of a group when a program first needs it. Each process writes its address into the
key-value store of JAX's coordinator, and waits there for the addresses of the others, 30 seconds each
(`kDefaultTimeout` of gloo's `rendezvous/store.h`; XLA's `GlooKeyValueStore`). There is no connection to cut yet. A
main thread that waits in C++, as in NumPy's conversion, gets no signal.

So addresses are written in place of the missing ones. Of two processes the one with the higher address connects
(gloo's `Pair::connect`). The written address is the lowest, with port 0, which refuses connections: the program
fails (`Gloo context initialization failed`). The store refuses an address that comes later.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Collection, Mapping
from typing import Any

from nbdist.engine.frameworks.jax.store import coordinator_client

FOLDER = "cpu:gloo"
"""Where XLA's CPU back end keeps gloo's addresses (jaxlib 0.12.0.1): below it a folder for each group, named by
the ids of its devices, with one numbered key for each device. If XLA uses other keys nothing is freed."""

LENGTHS = {socket.AF_INET: 2 + 4, socket.AF_INET6: 2 + 4 + 16}
"""Bytes of port and address in a `sockaddr`, after the two bytes of its family (ip(7) and ipv6(7) of Linux)."""


class Meetings:
    """The meetings of one back end; after one was ended, a repair must follow.

    Attributes:
      ended: Whether a meeting was ended.
    """

    def __init__(self) -> None:
        self.ended = False
        self._ending = threading.Lock()

    def end(self, own: Collection[int]) -> None:
        """End the meetings in which this process waits, on a separate thread: the coordinator may not answer.

        Private API: `key_value_dir_get_bytes` and `key_value_set_bytes` of `coordinator_client()` (jax 0.12.0.1).
        Without them such a wait ends by itself, after half a minute.

        Args:
          own: The ports on which this process accepts connections for collectives.
        """
        threading.Thread(target=self._end, args=(own,), name="nbdist-meetings", daemon=True).start()

    def _end(self, own: Collection[int]) -> None:
        if not self._ending.acquire(blocking=False):
            return
        try:
            client: Any = coordinator_client()
            if not (
                hasattr(client, "key_value_dir_get_bytes")
                and hasattr(client, "key_value_set_bytes")
            ):
                return
            # The coordinator may be gone.
            with contextlib.suppress(RuntimeError):
                known = dict(client.key_value_dir_get_bytes(FOLDER))
                for key, address in missing(known, own).items():
                    self.ended = True
                    # Another process may do the same at this moment.
                    with contextlib.suppress(RuntimeError):
                        client.key_value_set_bytes(key, address)
        finally:
            self._ending.release()


def missing(addresses: Mapping[str, bytes], own: Collection[int]) -> dict[str, bytes]:
    """Return an address that refuses connections for each key whose address this process waits for.

    Args:
      addresses: All known addresses, by key.
      own: As for `Meetings.end`.
    """
    groups: dict[str, dict[int, bytes]] = {}
    for key, value in addresses.items():
        group, _, number = key.rpartition("/")
        if number.isdigit():
            groups.setdefault(group, {})[int(number)] = value
    found = {}
    for group, known in groups.items():
        refusing = next(filter(None, (_refusing(value, own) for value in known.values())), None)
        if refusing is not None:
            count = len(group.rpartition("/")[2].split(","))
            found.update({f"{group}/{n}": refusing for n in range(count) if n not in known})
    return found


def _refusing(value: bytes, own: Collection[int]) -> bytes | None:
    """Return an address of this process with zeros in place of port and host; None if it is another's."""
    for family, length in LENGTHS.items():
        for port in own:
            head = struct.pack("=H", family)
            at = value.find(head + struct.pack("!H", port))
            if at >= 0:
                at += len(head)
                return value[:at] + bytes(length) + value[at + length :]
    return None
