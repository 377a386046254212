"""Handlers of the calls that save and restore variables, and of those by which engines keep copies for each other.

Variables are saved into a folder, and restored from it, by all processes together. Copies stay in the memory of
other engines, in numbered rounds. A new process gets a round from them (`offer_round`, `receive_round`), and
arrays become again as they were in it (`go_back`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls import saving as contract
from nbdist.contract.calls.call import Done
from nbdist.contract.calls.values import Named, Room
from nbdist.engine.frameworks import each
from nbdist.engine.kernel.together import together
from nbdist.engine.namespace.copies import Copying, Returning
from nbdist.engine.namespace.names import users
from nbdist.engine.saving.parts import SavedObjects
from nbdist.machine import checkup

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident
    from nbdist.engine.saving.exchange import Exchange

    Buffers = Sequence[bytes | memoryview]


def save_arrays(
    resident: Resident, buffers: Buffers, call: contract.SaveArrays
) -> tuple[contract.Saving, list[Any]]:
    """Write variables into a folder, together with all other processes."""
    resident.framework.refuse_saving()
    # Imported here: it imports JAX.
    from nbdist.engine.saving.save import save

    with together(resident, call.number, "What was to be saved"):
        exchange = _exchange(resident, call)
        return save(
            call.path,
            call.names,
            _names(resident),
            SavedObjects(each(lambda one: one.keeper)),
            exchange,
            resident.host,
        ), []


def read_arrays(
    resident: Resident, buffers: Buffers, call: contract.ReadArrays
) -> tuple[contract.Saving, list[Any]]:
    """Read saved variables, together with all other processes, and set no name yet."""
    resident.framework.refuse_saving()
    from nbdist.engine.saving.restore import restore

    with together(resident, call.number, "What was to be restored"):
        exchange = _exchange(resident, call)
        report, held = restore(
            call.path,
            call.names,
            _names(resident),
            SavedObjects(each(lambda one: one.keeper)),
            exchange,
            resident.host,
        )
        resident.moving.begin(call.token, held)
    return report, []


def set_restored(
    resident: Resident, buffers: Buffers, call: contract.SetRestored
) -> tuple[Named, list[Any]]:
    """Give the variables that were read their names."""
    from nbdist.engine.saving.restore import RestoredValues

    values = resident.moving.held(call.token, RestoredValues).give(_names(resident))
    resident.shell.user_ns.update(values)
    resident.moving.end(call.token)
    return Named(names=tuple(values)), []


def _exchange(resident: Resident, call: contract.SaveArrays | contract.ReadArrays) -> Exchange:
    import jax

    from nbdist.engine.saving.exchange import Exchange

    return Exchange(
        resident.framework.store(),
        jax.process_index(),
        jax.process_count(),
        call.token,
        call.timeout_s,
    )


def _names(resident: Resident) -> dict[str, Any]:
    return users(resident.shell.user_ns, resident.shell.user_ns_hidden)


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
