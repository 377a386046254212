"""Handlers of the calls by which a process that takes the place of an ended one gets a namespace."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls import namespace as contract
from nbdist.contract.calls.values import Room
from nbdist.engine.frameworks import imported, parts
from nbdist.engine.namespace.moving import IncomingNamespace, OutgoingNamespace
from nbdist.engine.namespace.names import digests, used, users
from nbdist.engine.namespace.placements import Objects
from nbdist.engine.namespace.process import ProcessState, Read
from nbdist.engine.probe.samples import Sample

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

    Buffers = Sequence[bytes | memoryview]

_MISSING = object()


def offer_things(
    resident: Resident, buffers: Buffers, call: contract.OfferThings
) -> tuple[contract.Things, list[Any]]:
    """Return digests of settings, modules and functions, and unless `described` a pickle to set them from."""
    frameworks = _objects(resident).values()
    read = _state(resident).read(frameworks)
    things = contract.Things(digests=_digests(resident, call.key, read))
    if call.described:
        return things, []
    reference = resident.framework.placements(resident).reference
    return things, [_state(resident).packed(read, frameworks, reference)]


def take_things(
    resident: Resident, buffers: Buffers, call: contract.TakeThings
) -> tuple[contract.Things, list[Any]]:
    """Set the settings, modules and functions of the buffer; return their digests and what failed."""
    referent = resident.framework.placements(resident).referent
    failed = _state(resident).take(buffers[0], call.own, _objects(resident).values(), referent)
    # Patches are compared later, when this process has the names as well.
    read = _state(resident).read(_objects(resident).values(), patches=False)
    return contract.Things(digests=_digests(resident, call.key, read), failed=failed), []


def offer_namespace(
    resident: Resident, buffers: Buffers, call: contract.OfferNamespace
) -> tuple[contract.NamespaceOffer, list[Any]]:
    """Hold the user's names for a kernel; return how their arrays lie, and pickles without arrays."""
    held = _outgoing(resident, call.token, processes=call.processes)
    offer, pickles = held.offer(_names(resident), resident.hooks, call.things)
    return replace(offer, run=resident.cell.newest_run), list(pickles)


def pack_again(
    resident: Resident, buffers: Buffers, call: contract.PackAgain
) -> tuple[contract.NamespacePacked, list[Any]]:
    """Pack an offered namespace again, without the entries that could not be made."""
    held = resident.moving.held(call.token, OutgoingNamespace)
    structure, left_out = held.again(without=call.without, late=call.late)
    return contract.NamespacePacked(left_out=left_out), [structure]


def used_names(
    resident: Resident, buffers: Buffers, call: contract.AskUsed
) -> tuple[contract.UsedNames, list[Any]]:
    """Return which of the user's names a cell may read; None if that cannot be known."""
    try:
        code = str(resident.shell.transform_cell(call.code))
    except SyntaxError:
        return contract.UsedNames(names=None), []
    names = used(code, resident.shell.user_ns)
    return contract.UsedNames(names=None if names is None else tuple(sorted(names))), []


def offer_arrays(
    resident: Resident, buffers: Buffers, call: contract.OfferArrays
) -> tuple[contract.NamespaceOffer, list[Any]]:
    """Hold this process's parts of arrays that another process has offered."""
    held = _outgoing(resident, call.token, processes=call.processes)
    return held.offer_arrays(call.keys, _names(resident)), []


def receive_namespace(
    resident: Resident, buffers: Buffers, call: contract.ReceiveNamespace
) -> tuple[Room, list[Any]]:
    """Expect a namespace; return which parts of its arrays are wanted."""
    placements = resident.framework.placements(resident)
    placements.begin(call.generation)
    held = IncomingNamespace(resident.shell.user_ns, placements, call.arrays, buffers[0])
    resident.moving.begin(call.token, held)
    return held.describe(), []


def cover_namespace(
    resident: Resident, buffers: Buffers, call: contract.CoverNamespace
) -> tuple[Room, list[Any]]:
    """Divide the wanted parts of arrays into parts that other processes have."""
    return resident.moving.held(call.token, IncomingNamespace).cover(call.covers), []


def make_namespace(
    resident: Resident, buffers: Buffers, call: contract.MakeNamespace
) -> tuple[contract.NamespaceMade, list[Any]]:
    """Set the names of the namespace that has come, and call the user's hooks."""
    with contextlib.ExitStack() as stack:
        for one in _objects(resident).values():
            stack.enter_context(one.unpickling())
        found = resident.moving.held(call.token, IncomingNamespace).make(
            buffers[0], call.lost, lambda name: _objects(resident).get(name)
        )
    if isinstance(found, contract.NotMade):
        return contract.NamespaceMade(not_made=found), []
    resident.moving.end(call.token)
    resident.shell.user_ns.update(dict.fromkeys(call.numbered, resident.process_id))
    resident.hooks.update(found.hooks)
    _state(resident).settle(resident.framework.placements(resident).referent)
    patches = _state(resident).is_patched or bool(resident.hooks)
    before, things = dict(resident.shell.user_ns), _things(resident, call.key, patches=patches)
    failed = resident.call_hooks()
    resident.cell.newest_run = call.run
    names = _names(resident)
    now = _things(resident, call.key, patches=patches) if resident.hooks else things
    return contract.NamespaceMade(
        names=tuple(found.names),
        hooks=tuple(failed),
        set_again=tuple(n for n, value in names.items() if value is not before.get(n, _MISSING)),
        things=things,
        things_set_again=tuple(n for n in {**things, **now} if things.get(n) != now.get(n)),
    ), []


def _state(resident: Resident) -> ProcessState:
    assert resident.state is not None, "a session has greeted this process"
    return resident.state


def _things(resident: Resident, key: str, *, patches: bool) -> dict[str, str]:
    read = _state(resident).read(_objects(resident).values(), patches=patches)
    return {**_digests(resident, key, read), **_state(resident).constants(key)}


def _digests(resident: Resident, key: str, read: Read) -> dict[str, str]:
    def look(values: Mapping[str, Any]) -> dict[str, str]:
        return {name: one.text for name, one in _look(resident)(values).items()}

    return _state(resident).digests(read, look, key)


def _outgoing(resident: Resident, token: str, *, processes: int | None = None) -> OutgoingNamespace:
    placements = resident.framework.placements(resident, processes=processes)
    held = OutgoingNamespace(
        resident.shell.user_ns,
        placements,
        _objects(resident),
        _look(resident),
        resident.copies,
    )
    resident.moving.begin(token, held)
    return held


def _look(resident: Resident) -> Callable[[Mapping[str, Any]], Mapping[str, Sample]]:
    """Return a function that samples values by name, to compare them between processes."""
    return functools.partial(
        digests,
        offer_array=resident.framework.arrays().offer_array,
        frameworks=parts(),
    )


def _objects(resident: Resident) -> dict[str, Objects]:
    assert resident.process_id is not None
    makers = {one.name: one.objects for one in imported() if one.objects is not None}
    found = {name: make(resident.process_id) for name, make in makers.items()}
    return {name: objects for name, objects in found.items() if objects is not None}


def _names(resident: Resident) -> dict[str, Any]:
    return users(resident.shell.user_ns, resident.shell.user_ns_hidden)
