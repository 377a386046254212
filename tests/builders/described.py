"""What an engine says of itself that somebody else has started."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from nbdist.contract.calls import PROTOCOL
from nbdist.contract.calls.engine import Described
from nbdist.version import __version__

IDLE = Described(
    protocol=PROTOCOL,
    nbdist=__version__,
    python="3.13.0",
    host="h1",
    pid=1,
    ident="engine-1",
    settled=None,
    numbers={},
    joined=None,
    up=False,
    devices=None,
    version="0.10",
    address=None,
    port=20000,
)


def reported(host: str = "h1", **facts: Any) -> Described:
    """One on this host on which nothing has been started yet, but for these facts."""
    return structs.replace(IDLE, host=host, **facts)
