"""What a kernel asks of an engine to move values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdist.engine.cell.showable import error_text
from nbdist.engine.frameworks import imported
from nbdist.engine.kernel.together import evaluate
from nbdist.engine.values.incoming import Incoming
from nbdist.engine.values.outgoing import Outgoing
from nbdist.errors import ArrayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbdist.engine.kernel.resident import Resident

    Buffers = Sequence[bytes | memoryview]
    Answer = tuple[dict[str, Any], list[Any]]


def offer(
    resident: Resident,
    buffers: Buffers,
    *,
    token: str,
    expression: str,
    number: int | None = None,
    wanted: bool = True,
) -> Answer:
    """Holds the value of an expression for a kernel, and describes it; does neither where it is not `wanted`.

    `number` is that of the proof which follows where all processes evaluate it together.
    """
    value = evaluate(resident, expression, number=number)
    if not wanted:
        return {}, []
    held = Outgoing(value, expression, resident.framework.offer_array, imported())
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


def open_memories(
    resident: Resident, buffers: Buffers, *, token: str, addresses: list[dict[str, Any]]
) -> Answer:
    """Opens memories of the kernel, where this process can."""
    return {"opened": resident.moving.outgoing(token).open(addresses)}, []


def take(resident: Resident, buffers: Buffers, *, token: str, boxes: list[Any]) -> Answer:
    """Parts of arrays that are offered."""
    return {}, [resident.moving.outgoing(token).take(boxes)]


def write(
    resident: Resident,
    buffers: Buffers,
    *,
    token: str,
    boxes: list[Any],
    spots: list[tuple[int, int]],
) -> Answer:
    """Writes parts of arrays that are offered into memories of the kernel."""
    resident.moving.outgoing(token).write(boxes, spots)
    return {}, []


def receive(
    resident: Resident,
    buffers: Buffers,
    *,
    token: str,
    arrays: list[dict[str, Any]],
    sharding: str | None,
    number: int | None = None,
) -> Answer:
    """Expects what a kernel is about to send; answers which pieces of its arrays are wanted here.

    `number` is that of the proof which follows where all processes evaluate `sharding` together.
    """
    place = None
    if sharding is not None:
        value = evaluate(resident, sharding, number=number)
        place = resident.framework.placed(value, sharding)
    resident.moving.end()
    held = Incoming(arrays, place=place)
    resident.moving.begin(token, held)
    return held.describe(), []


def share(
    resident: Resident, buffers: Buffers, *, token: str, sizes: list[int], spots: list[Any]
) -> Answer:
    """Makes memories for what is to come in messages, for this process and others of its machine."""
    return {"addresses": resident.moving.incoming(token).share(sizes, spots)}, []


def join(
    resident: Resident,
    buffers: Buffers,
    *,
    token: str,
    addresses: list[dict[str, Any]],
    spots: list[Any],
) -> Answer:
    """Takes memories of another process, where this one can."""
    return {"joined": resident.moving.incoming(token).join(addresses, spots)}, []


def put(
    resident: Resident, buffers: Buffers, *, token: str, stretches: list[tuple[int, int, int]]
) -> Answer:
    """Takes bytes into memories made here: which one, how many bytes from its start, and how many, one by one."""
    incoming, data, begin = resident.moving.incoming(token), memoryview(buffers[0]), 0
    for memory, at, nbytes in stretches:
        incoming.put(memory, at, data[begin : begin + nbytes])
        begin += nbytes
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
