"""What a kernel asks of an engine to move values: one at a time, and of one that ended nothing is kept."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nbdist.engine.frameworks import framework as framework_named
from nbdist.engine.showable import error_text
from nbdist.engine.values.incoming import Incoming
from nbdist.engine.values.outgoing import Outgoing
from nbdist.engine.values.window import Window
from nbdist.errors import ArrayError, StaleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbdist.engine.resident import Resident

    Buffers = Sequence[bytes | memoryview]
    Answer = tuple[dict[str, Any], list[Any]]


class Moving:
    """The value that is on its way, if one is; of a resident."""

    def __init__(self) -> None:
        self._token = ""
        self._held: Outgoing | Incoming | None = None

    def begin(self, token: str, held: Outgoing | Incoming) -> None:
        """Holds a value; lets go of one that its kernel has left behind."""
        self.end()
        self._token, self._held = token, held

    def outgoing(self, token: str) -> Outgoing:
        """The one that is sent.

        Raises:
          StaleError: It is not held any longer.
        """
        if self._token != token or not isinstance(self._held, Outgoing):
            raise _left()
        return self._held

    def incoming(self, token: str) -> Incoming:
        """The one that is received.

        Raises:
          StaleError: It is not held any longer.
        """
        if self._token != token or not isinstance(self._held, Incoming):
            raise _left()
        return self._held

    def end(self, token: str | None = None) -> None:
        """Lets go of what is held; with `token`, of this one only."""
        if token in (None, self._token) and self._held is not None:
            self._held.close()
            self._held = None


def _left() -> StaleError:
    return StaleError(
        "The processes were repaired, or another kernel moved values, while these were on their way. Nothing "
        "here was changed; try again."
    )


def offer(
    resident: Resident,
    buffers: Buffers,
    *,
    token: str,
    expression: str,
    framework: str,
    window: dict[str, Any] | None,
    number: int | None = None,
    wanted: bool = True,
) -> Answer:
    """Holds the value of an expression for a kernel, and describes it; does neither where it is not `wanted`.

    `number` is that of the proof which follows where all processes evaluate it together.
    """
    value = resident.evaluate(expression, number=number)
    if not wanted:
        return {}, []
    offer_array = framework_named(framework).offer_array
    held = Outgoing(value, expression, offer_array, _opened(window))
    resident.moving.begin(token, held)
    return held.describe(), []


def structure(resident: Resident, buffers: Buffers, *, token: str) -> Answer:
    """An offered value, pickled without its arrays."""
    return {}, [resident.moving.outgoing(token).structure()]


def digests(
    resident: Resident, buffers: Buffers, *, token: str, pieces: list[tuple[str, int]]
) -> Answer:
    """Digests of pieces of arrays that are offered."""
    return {"digests": resident.moving.outgoing(token).digests(pieces)}, []


def nodes(resident: Resident, buffers: Buffers, *, token: str) -> Answer:
    """All that an offered value holds, each with a digest and a text."""
    return {"nodes": resident.moving.outgoing(token).nodes()}, []


def preview(resident: Resident, buffers: Buffers, *, token: str, path: str, piece: int) -> Answer:
    """The first elements of a piece of an array, as text."""
    return {"text": resident.moving.outgoing(token).preview(path, piece)}, []


def take(
    resident: Resident, buffers: Buffers, *, token: str, boxes: list[Any], at: int | None
) -> Answer:
    """Parts of arrays that are offered."""
    return {}, list(resident.moving.outgoing(token).take(boxes, at))


def receive(
    resident: Resident,
    buffers: Buffers,
    *,
    token: str,
    arrays: list[dict[str, Any]],
    window: dict[str, Any] | None,
    sharding: str | None,
    framework: str,
    number: int | None = None,
) -> Answer:
    """Makes room for what a kernel is about to send; answers which parts of its arrays are wanted here.

    `number` is that of the proof which follows where all processes evaluate `sharding` together.
    """
    place = None
    if sharding is not None:
        value = resident.evaluate(sharding, number=number)
        place = framework_named(framework).placed(value, sharding)
    resident.moving.end()
    held = Incoming(arrays, place=place, window=_opened(window))
    resident.moving.begin(token, held)
    return held.describe(), []


def put(
    resident: Resident, buffers: Buffers, *, token: str, boxes: list[Any], at: int | None
) -> Answer:
    """Takes parts of arrays."""
    resident.moving.incoming(token).put(boxes, at, buffers[0] if buffers else None)
    return {}, []


def ready(resident: Resident, buffers: Buffers, *, token: str) -> Answer:
    """Makes the values of what has come; they get their names when they are made on all processes."""
    incoming = resident.moving.incoming(token)
    try:
        incoming.make(buffers[0])
    except Exception as error:
        raise ArrayError(
            f"What was pushed could not be made on {resident.where}: "
            f"{error_text(error)}. Nothing was changed."
        ) from error
    return {}, []


def set_names(resident: Resident, buffers: Buffers, *, token: str) -> Answer:
    """Puts the values into the user's namespace."""
    values = resident.moving.incoming(token).values()
    resident.shell.user_ns.update(values)
    resident.moving.end(token)
    return {"names": list(values)}, []


def let_go(resident: Resident, buffers: Buffers, *, token: str) -> Answer:
    """Keeps nothing of what was on its way."""
    resident.moving.end(token)
    return {}, []


def _opened(window: dict[str, Any] | None) -> Window | None:
    if window is not None:
        with contextlib.suppress(OSError, ValueError):
            return Window(**window)
    return None
