"""What a kernel asks of engines where one of them takes the place of a process that has ended."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls import namespace as contract
from nbdist.contract.calls.values import Room
from nbdist.engine.frameworks import imported
from nbdist.engine.namespace.digests import digests
from nbdist.engine.namespace.incoming import IncomingNamespace
from nbdist.engine.namespace.names import users
from nbdist.engine.namespace.objects import Objects
from nbdist.engine.namespace.outgoing import OutgoingNamespace
from nbdist.engine.namespace.used import used

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

    Buffers = Sequence[bytes | memoryview]

_MISSING = object()


def offer_namespace(
    resident: Resident, buffers: Buffers, call: contract.OfferNamespace
) -> tuple[contract.NamespaceOffer, list[Any]]:
    """See `OfferNamespace`."""
    held = _outgoing(resident, call.token, processes=call.processes)
    offer, pickles = held.offer(_names(resident), resident.hooks)
    return offer, list(pickles)


def used_names(
    resident: Resident, buffers: Buffers, call: contract.AskUsed
) -> tuple[contract.UsedNames, list[Any]]:
    """See `AskUsed`."""
    try:
        code = str(resident.shell.transform_cell(call.code))
    except SyntaxError:
        return contract.UsedNames(names=None), []
    names = used(code, resident.shell.user_ns)
    return contract.UsedNames(names=None if names is None else tuple(sorted(names))), []


def offer_arrays(
    resident: Resident, buffers: Buffers, call: contract.OfferArrays
) -> tuple[contract.NamespaceOffer, list[Any]]:
    """See `OfferArrays`."""
    held = _outgoing(resident, call.token, processes=call.processes)
    return held.offer_arrays(call.keys, _names(resident)), []


def receive_namespace(
    resident: Resident, buffers: Buffers, call: contract.ReceiveNamespace
) -> tuple[Room, list[Any]]:
    """See `ReceiveNamespace`."""
    placements = resident.framework.placements(resident)
    placements.begin(call.generation)
    held = IncomingNamespace(resident.shell.user_ns, placements, call.arrays, buffers[0])
    resident.moving.begin(call.token, held)
    return held.describe(), []


def cover_namespace(
    resident: Resident, buffers: Buffers, call: contract.CoverNamespace
) -> tuple[Room, list[Any]]:
    """See `CoverNamespace`."""
    return resident.moving.held(call.token, IncomingNamespace).cover(call.covers), []


def make_namespace(
    resident: Resident, buffers: Buffers, call: contract.MakeNamespace
) -> tuple[contract.NamespaceMade, list[Any]]:
    """See `MakeNamespace`."""
    found = resident.moving.held(call.token, IncomingNamespace).make(
        buffers[0], call.lost, lambda name: _objects(resident).get(name)
    )
    resident.moving.end(call.token)
    resident.shell.user_ns.update(dict.fromkeys(call.numbered, resident.process_id))
    resident.hooks.update(found["hooks"])
    before = dict(resident.shell.user_ns)
    failed = resident.call_hooks()
    names = _names(resident)
    return contract.NamespaceMade(
        names=tuple(found["names"]),
        hooks=tuple(failed),
        set_again=tuple(n for n, value in names.items() if value is not before.get(n, _MISSING)),
    ), []


def _outgoing(resident: Resident, token: str, *, processes: int | None = None) -> OutgoingNamespace:
    placements = resident.framework.placements(resident, processes=processes)
    look = functools.partial(
        digests,
        offer_array=resident.framework.offer_array,
        frameworks=imported(),
    )
    held = OutgoingNamespace(
        resident.shell.user_ns, placements, _objects(resident), look, resident.copies
    )
    resident.moving.begin(token, held)
    return held


def _objects(resident: Resident) -> dict[str, Objects]:
    assert resident.process_id is not None
    found = {one.name: one.objects(resident.process_id) for one in imported()}
    return {name: objects for name, objects in found.items() if objects is not None}


def _names(resident: Resident) -> dict[str, Any]:
    return users(resident.shell.user_ns, resident.shell.user_ns_hidden)
