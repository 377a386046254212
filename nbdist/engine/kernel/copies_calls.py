"""Handlers of the calls by which engines keep copies for each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls import copies as contract
from nbdist.contract.calls.call import Done
from nbdist.contract.calls.values import Room
from nbdist.engine.namespace.copying import Copying, Returning
from nbdist.machine import checkup

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

    Buffers = Sequence[bytes | memoryview]


def offer_copies(
    resident: Resident, buffers: Buffers, call: contract.OfferCopies
) -> tuple[contract.CopiesOffer, list[Any]]:
    """Begin a round of copies; return which arrays this process has, and which copies it keeps."""
    if resident.step is not None:
        resident.step.begin_cell(
            call.run, call.processes, resident.shell.user_ns, in_step=call.in_step, code=False
        )
    held = Copying(resident.framework.placements(resident), resident.copies, resident.where)
    resident.moving.begin(call.token, held)
    return held.offer(), []


def receive_copies(
    resident: Resident, buffers: Buffers, call: contract.ReceiveCopies
) -> tuple[Done, list[Any]]:
    """Make room for the copies that come."""
    held = resident.moving.held(call.token, Copying)
    held.receive(call.pieces, left_out=call.left_out)
    return Done(), []


def keep_copies(
    resident: Resident, buffers: Buffers, call: contract.KeepCopies
) -> tuple[contract.CopiesKept, list[Any]]:
    """Keep the copies that have come, under the number of their round."""
    resident.moving.held(call.token, Copying).keep(call.number)
    resident.moving.end(call.token)
    return contract.CopiesKept(nbytes=resident.copies.nbytes), []


def use_copies(
    resident: Resident, buffers: Buffers, call: contract.UseCopies
) -> tuple[contract.CopiesKept, list[Any]]:
    """Keep the copies of this round alone."""
    resident.copies.only(call.number)
    return contract.CopiesKept(nbytes=resident.copies.nbytes), []


def offer_round(
    resident: Resident, buffers: Buffers, call: contract.OfferRound
) -> tuple[contract.RoundOffer, list[Any]]:
    """Offer what this process keeps of a round to a kernel that takes it to a new process."""
    arrays, now, whole = _returning(resident, call.token, call.number).offer()
    return contract.RoundOffer(arrays=tuple(arrays), now=now, whole=tuple(whole)), []


def receive_round(
    resident: Resident, buffers: Buffers, call: contract.ReceiveRound
) -> tuple[Room, list[Any]]:
    """Return which parts of the arrays of a round this process wants, and how much memory it has."""
    wanted = _returning(resident, call.token, call.number).receive(call.arrays)
    room = Room(
        wanted=tuple(map(tuple, wanted)),
        available=checkup.memory()["available"],
        group=checkup.group(),
    )
    return room, []


def go_back(
    resident: Resident, buffers: Buffers, call: contract.GoBack
) -> tuple[contract.WentBack, list[Any]]:
    """Make arrays again as they were in a round, and have every reference lead to them."""
    held = resident.moving.held(call.token, Returning)
    made = held.round()
    resident.copies.add(call.number, made)
    paths, newer = held.go_back(made, call.paths)
    resident.moving.end(call.token)
    return contract.WentBack(paths=tuple(paths), newer=tuple(newer)), []


def _returning(resident: Resident, token: str, number: int) -> Returning:
    held = Returning(resident.framework.placements(resident), resident.copies.round(number))
    resident.moving.begin(token, held)
    return held
