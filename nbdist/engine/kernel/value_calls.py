"""Handlers of the calls that move values between a kernel and an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdist.contract.calls import values as contract
from nbdist.contract.calls.call import Done
from nbdist.engine.cell.code_owners import error_text
from nbdist.engine.frameworks import parts
from nbdist.engine.kernel.together import evaluate
from nbdist.engine.values.incoming import ArraySink, ArraySource, Incoming
from nbdist.engine.values.outgoing import Outgoing
from nbdist.errors import ArrayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbdist.engine.kernel.resident import Resident

    Buffers = Sequence[bytes | memoryview]


def offer(
    resident: Resident, buffers: Buffers, call: contract.Offer
) -> tuple[contract.ValueOffer, list[Any]]:
    """Hold the value of an expression and describe it; if no offer is wanted, only evaluate it."""
    value = evaluate(resident, call.expression, number=call.number)
    if not call.wanted:
        return contract.ValueOffer(), []
    held = Outgoing(value, call.expression, resident.framework.arrays().offer_array, parts())
    resident.moving.begin(call.token, held)
    return held.describe(), []


def structure(
    resident: Resident, buffers: Buffers, call: contract.AskStructure
) -> tuple[Done, list[Any]]:
    """Return the offered value, pickled without its arrays."""
    return Done(), [resident.moving.held(call.token, Outgoing).structure()]


def digests(
    resident: Resident, buffers: Buffers, call: contract.AskDigests
) -> tuple[contract.PieceDigests, list[Any]]:
    """Return digests of pieces of offered arrays."""
    found = resident.moving.held(call.token, Outgoing).digests(call.pieces)
    return contract.PieceDigests(digests=tuple(found)), []


def nodes(
    resident: Resident, buffers: Buffers, call: contract.AskNodes
) -> tuple[contract.Nodes, list[Any]]:
    """Return path, digest and text of all that an offered value holds."""
    return contract.Nodes(nodes=tuple(resident.moving.held(call.token, Outgoing).nodes())), []


def preview(
    resident: Resident, buffers: Buffers, call: contract.AskPreview
) -> tuple[contract.Preview, list[Any]]:
    """Return the first elements of a piece of an array, as text."""
    text = resident.moving.held(call.token, Outgoing).preview(call.path, call.piece)
    return contract.Preview(text=text), []


def open_memories(
    resident: Resident, buffers: Buffers, call: contract.OpenMemories
) -> tuple[contract.Opened, list[Any]]:
    """Open memories of the kernel; return whether this process can."""
    opened = resident.moving.held(call.token, Outgoing).open(call.addresses)
    return contract.Opened(opened=opened), []


def take(resident: Resident, buffers: Buffers, call: contract.Take) -> tuple[Done, list[Any]]:
    """Return the bytes of parts of offered arrays."""
    return Done(), [resident.moving.held(call.token, ArraySource).take(call.boxes)]


def write(resident: Resident, buffers: Buffers, call: contract.Write) -> tuple[Done, list[Any]]:
    """Write parts of offered arrays into memories of the kernel."""
    resident.moving.held(call.token, Outgoing).write(call.boxes, call.spots)
    return Done(), []


def receive(
    resident: Resident, buffers: Buffers, call: contract.Receive
) -> tuple[contract.Room, list[Any]]:
    """Expect values; return which parts of their arrays are wanted."""
    place = None
    if call.sharding is not None:
        value = evaluate(resident, call.sharding, number=call.number)
        place = resident.framework.arrays().placed(value, call.sharding)
    resident.moving.end()
    held = Incoming(call.arrays, place=place)
    resident.moving.begin(call.token, held)
    return held.describe(), []


def share(
    resident: Resident, buffers: Buffers, call: contract.Share
) -> tuple[contract.Shared, list[Any]]:
    """Make memories that messages are to fill; return their addresses."""
    addresses = resident.moving.held(call.token, ArraySink).share(call.sizes, call.spots)
    return contract.Shared(addresses=tuple(addresses)), []


def join(
    resident: Resident, buffers: Buffers, call: contract.Join
) -> tuple[contract.Joined, list[Any]]:
    """Take memories of another process; return whether this process can."""
    joined = resident.moving.held(call.token, Incoming).join(call.addresses, call.spots)
    return contract.Joined(joined=joined), []


def put(resident: Resident, buffers: Buffers, call: contract.Put) -> tuple[Done, list[Any]]:
    """Copy the bytes of the buffer into memories made here."""
    sink, data, begin = resident.moving.held(call.token, ArraySink), memoryview(buffers[0]), 0
    for one in call.stretches:
        sink.put(one.memory, one.at, data[begin : begin + one.nbytes])
        begin += one.nbytes
    return Done(), []


def ready(resident: Resident, buffers: Buffers, call: contract.Ready) -> tuple[Done, list[Any]]:
    """Make the values that have come; they get their names when they are made on all processes."""
    incoming = resident.moving.held(call.token, Incoming)
    try:
        incoming.make(buffers[0])
    except Exception as error:
        raise ArrayError(
            f"What was pushed could not be made on {resident.where}: "
            f"{error_text(error)}. Nothing was changed."
        ) from error
    return Done(), []


def set_names(
    resident: Resident, buffers: Buffers, call: contract.SetNames
) -> tuple[contract.Named, list[Any]]:
    """Put the values into the user's namespace."""
    values = resident.moving.held(call.token, Incoming).values()
    resident.shell.user_ns.update(values)
    resident.moving.end(call.token)
    return contract.Named(names=tuple(values)), []


def let_go(resident: Resident, buffers: Buffers, call: contract.LetGo) -> tuple[Done, list[Any]]:
    """Drop what was on its way."""
    resident.moving.end(call.token)
    return Done(), []
