"""Handlers of the calls that move values, names and arrays: to a kernel, a new process, or a folder and back.

Values move between a kernel and a process. A process that replaces an ended one gets the namespace of a surviving
process. Copies of arrays stay in the memory of other processes, in numbered rounds; all processes can go back to a
round. Variables are saved into a folder, and restored from it, by all processes together.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from nbdist.contract.calls import Done, namespace, values
from nbdist.contract.calls.values import Named, Room
from nbdist.engine.frameworks import each, imported, parts
from nbdist.engine.kernel.engine_calls import evaluate, together
from nbdist.engine.namespace.copies import Copying, Returning
from nbdist.engine.namespace.moving import IncomingNamespace, OutgoingNamespace
from nbdist.engine.namespace.names import digests as sampled
from nbdist.engine.namespace.names import used as used_names
from nbdist.engine.namespace.process import ProcessState, Read
from nbdist.engine.namespace.things import Objects
from nbdist.engine.probe.samples import Sample
from nbdist.engine.saving.exchange import Exchange, SharedTask
from nbdist.engine.saving.parts import SavedObjects
from nbdist.engine.values.incoming import ArraySink, ArraySource, Incoming, room
from nbdist.engine.values.outgoing import Outgoing
from nbdist.errors import ArrayError, error_text

if TYPE_CHECKING:
    from nbdist.engine.kernel.engine_calls import Buffer
    from nbdist.engine.kernel.resident import Resident

_MISSING = object()


def offer_things(
    resident: Resident, call: namespace.OfferThings
) -> namespace.Things | tuple[namespace.Things, bytes]:
    """Return digests of settings, modules and functions, and unless `described` a pickle to set them from."""
    frameworks = _objects(resident).values()
    read = _state(resident).read(frameworks)
    things = namespace.Things(digests=_digests(resident, call.key, read))
    if call.described:
        return things
    reference = resident.framework.placements(resident).reference
    return things, _state(resident).packed(read, frameworks, reference)


def take_things(resident: Resident, call: namespace.TakeThings, data: Buffer) -> namespace.Things:
    """Set the settings, modules and functions of the buffer; return their digests and what failed."""
    referent = resident.framework.placements(resident).referent
    failed = _state(resident).take(data, call.own, _objects(resident).values(), referent)
    # Patches are compared later, once this process has the user's names too.
    read = _state(resident).read(_objects(resident).values(), patches=False)
    return namespace.Things(digests=_digests(resident, call.key, read), failed=failed)


def offer_namespace(
    resident: Resident, call: namespace.OfferNamespace
) -> tuple[namespace.NamespaceOffer, bytes, bytes]:
    """Hold the user's names for a kernel; return how their arrays lie, and pickles without arrays."""
    held = _outgoing(resident, call.token, processes=call.processes)
    offer, placements, structure = held.offer(resident.user_names, resident.hooks, call.things)
    return structs.replace(offer, run=resident.cell.newest_run), placements, structure


def pack_again(
    resident: Resident, call: namespace.PackAgain
) -> tuple[namespace.NamespacePacked, bytes]:
    """Pack an offered namespace again, without the entries that could not be made."""
    held = resident.moving.held(call.token, OutgoingNamespace)
    structure, left_out = held.again(without=call.without, late=call.late)
    return namespace.NamespacePacked(left_out=left_out), structure


def used(resident: Resident, call: namespace.AskUsed) -> namespace.UsedNames:
    """Return which of the user's names a cell may read; None if that cannot be known."""
    try:
        code = str(resident.shell.transform_cell(call.code))
    except SyntaxError:
        return namespace.UsedNames(names=None)
    names = used_names(code, resident.shell.user_ns)
    return namespace.UsedNames(names=None if names is None else tuple(sorted(names)))


def offer_arrays(resident: Resident, call: namespace.OfferArrays) -> namespace.NamespaceOffer:
    """Hold this process's parts of arrays that another process has offered."""
    held = _outgoing(resident, call.token, processes=call.processes)
    return held.offer_arrays(call.keys, resident.user_names)


def receive_namespace(
    resident: Resident, call: namespace.ReceiveNamespace, placements_pickle: Buffer
) -> Room:
    """Expect a namespace; return which parts of its arrays are wanted."""
    placements = resident.framework.placements(resident)
    placements.begin(call.generation)
    held = IncomingNamespace(resident.shell.user_ns, placements, call.arrays, placements_pickle)
    resident.moving.begin(call.token, held)
    return held.describe()


def cover_namespace(resident: Resident, call: namespace.CoverNamespace) -> Room:
    """Divide the wanted parts of arrays into parts that other processes have."""
    return resident.moving.held(call.token, IncomingNamespace).cover(call.covers)


def make_namespace(
    resident: Resident, call: namespace.MakeNamespace, structure: Buffer
) -> namespace.NamespaceMade:
    """Set the names of the namespace that has come, and call the user's hooks."""
    with contextlib.ExitStack() as stack:
        for one in _objects(resident).values():
            stack.enter_context(one.unpickling())
        found = resident.moving.held(call.token, IncomingNamespace).make(
            structure, call.lost, lambda name: _objects(resident).get(name)
        )
    if isinstance(found, namespace.NotMade):
        return namespace.NamespaceMade(not_made=found)
    resident.moving.end(call.token)
    resident.shell.user_ns.update(dict.fromkeys(call.numbered, resident.process_id))
    resident.hooks.update(found.hooks)
    _state(resident).settle(resident.framework.placements(resident).referent)
    patches = _state(resident).is_patched or bool(resident.hooks)
    before, things = dict(resident.shell.user_ns), _things(resident, call.key, patches=patches)
    failed = resident.call_hooks()
    resident.cell.newest_run = call.run
    names = resident.user_names
    now = _things(resident, call.key, patches=patches) if resident.hooks else things
    return namespace.NamespaceMade(
        names=tuple(found.names),
        hooks=tuple(failed),
        set_again=tuple(n for n, value in names.items() if value is not before.get(n, _MISSING)),
        things=things,
        things_set_again=tuple(n for n in {**things, **now} if things.get(n) != now.get(n)),
    )


def _state(resident: Resident) -> ProcessState:
    assert resident.state is not None, "a session has greeted this process"
    return resident.state


def _things(resident: Resident, key: str, *, patches: bool) -> dict[str, str]:
    read = _state(resident).read(_objects(resident).values(), patches=patches)
    return {**_digests(resident, key, read), **_state(resident).constants(key)}


def _digests(resident: Resident, key: str, read: Read) -> dict[str, str]:
    def look(found: Mapping[str, Any]) -> dict[str, str]:
        return {name: one.text for name, one in _look(resident)(found).items()}

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
        sampled,
        offer_array=resident.framework.arrays().offer_array,
        frameworks=parts(),
    )


def _objects(resident: Resident) -> dict[str, Objects]:
    assert resident.process_id is not None
    makers = {one.name: one.objects for one in imported() if one.objects is not None}
    found = {name: make(resident.process_id) for name, make in makers.items()}
    return {name: objects for name, objects in found.items() if objects is not None}


def save_arrays(resident: Resident, call: namespace.SaveArrays) -> namespace.Saving:
    """Write variables into a folder, together with all other processes."""
    resident.framework.refuse_saving()
    # Imported here: it imports JAX.
    from nbdist.engine.saving.save import save

    with together(resident, call.number, "What was to be saved"):
        return save(_shared_task(resident, call))


def read_arrays(resident: Resident, call: namespace.ReadArrays) -> namespace.Saving:
    """Read saved variables, together with all other processes, and set no name yet."""
    resident.framework.refuse_saving()
    from nbdist.engine.saving.restore import restore

    with together(resident, call.number, "What was to be restored"):
        report, held = restore(_shared_task(resident, call))
        resident.moving.begin(call.token, held)
    return report


def set_restored(resident: Resident, call: namespace.SetRestored) -> Named:
    """Give the variables that were read their names."""
    from nbdist.engine.saving.restore import RestoredValues

    found = resident.moving.held(call.token, RestoredValues).give(resident.user_names)
    resident.shell.user_ns.update(found)
    resident.moving.end(call.token)
    return Named(names=tuple(found))


def _shared_task(
    resident: Resident, call: namespace.SaveArrays | namespace.ReadArrays
) -> SharedTask:
    import jax

    store, process_id, count = resident.framework.store(), jax.process_index(), jax.process_count()
    return SharedTask(
        path=call.path,
        names=call.names,
        variables=resident.user_names,
        objects=SavedObjects(each(lambda one: one.keeper)),
        exchange=Exchange(store, process_id, count, call.token, call.timeout_s),
        host=resident.host,
    )


def offer_copies(resident: Resident, call: namespace.OfferCopies) -> namespace.CopiesOffer:
    """Begin a round of copies; return which arrays this process has, and which copies it keeps."""
    if resident.step is not None:
        resident.step.begin_cell(
            call.run, call.processes, resident.shell.user_ns, in_step=call.in_step, code=False
        )
    held = Copying(resident.framework.placements(resident), resident.copies, resident.where)
    resident.moving.begin(call.token, held)
    return held.offer()


def receive_copies(resident: Resident, call: namespace.ReceiveCopies) -> Done:
    """Make room for the copies that come."""
    resident.moving.held(call.token, Copying).receive(call.pieces, left_out=call.left_out)
    return Done()


def keep_copies(resident: Resident, call: namespace.KeepCopies) -> namespace.CopiesKept:
    """Keep the copies that have come, under the number of their round."""
    resident.moving.held(call.token, Copying).keep(call.number)
    resident.moving.end(call.token)
    return namespace.CopiesKept(nbytes=resident.copies.nbytes)


def use_copies(resident: Resident, call: namespace.UseCopies) -> namespace.CopiesKept:
    """Keep the copies of this round alone."""
    resident.copies.only(call.number)
    return namespace.CopiesKept(nbytes=resident.copies.nbytes)


def offer_round(resident: Resident, call: namespace.OfferRound) -> namespace.RoundOffer:
    """Offer what this process keeps of a round to a kernel that takes it to a new process."""
    return _returning(resident, call.token, call.number).offer()


def receive_round(resident: Resident, call: namespace.ReceiveRound) -> Room:
    """Return which parts of the arrays of a round this process wants, and how much memory it has."""
    return room(_returning(resident, call.token, call.number).receive(call.arrays))


def go_back(resident: Resident, call: namespace.GoBack) -> namespace.WentBack:
    """Make arrays again as they were in a round, and re-point every reference to them."""
    held = resident.moving.held(call.token, Returning)
    made = held.round()
    resident.copies.add(call.number, made)
    back = held.go_back(made, call.paths)
    resident.moving.end(call.token)
    return back


def _returning(resident: Resident, token: str, number: int) -> Returning:
    held = Returning(resident.framework.placements(resident), resident.copies.round(number))
    resident.moving.begin(token, held)
    return held


def offer(resident: Resident, call: values.Offer) -> values.ValueOffer:
    """Hold the value of an expression and describe it; if no offer is wanted, only evaluate it."""
    value = evaluate(resident, call.expression, number=call.number)
    if not call.wanted:
        return values.ValueOffer()
    held = Outgoing(value, call.expression, resident.framework.arrays().offer_array, parts())
    resident.moving.begin(call.token, held)
    return held.describe()


def structure(resident: Resident, call: values.AskStructure) -> tuple[Done, bytes]:
    """Return the offered value, pickled without its arrays."""
    return Done(), resident.moving.held(call.token, Outgoing).structure()


def digests(resident: Resident, call: values.AskDigests) -> values.PieceDigests:
    """Return digests of pieces of offered arrays."""
    found = resident.moving.held(call.token, Outgoing).digests(call.pieces)
    return values.PieceDigests(digests=tuple(found))


def nodes(resident: Resident, call: values.AskNodes) -> values.Nodes:
    """Return path, digest and text of all that an offered value holds."""
    return values.Nodes(nodes=tuple(resident.moving.held(call.token, Outgoing).nodes()))


def preview(resident: Resident, call: values.AskPreview) -> values.Preview:
    """Return the first elements of a piece of an array, as text."""
    text = resident.moving.held(call.token, Outgoing).preview(call.path, call.piece)
    return values.Preview(text=text)


def open_memories(resident: Resident, call: values.OpenMemories) -> values.Opened:
    """Open memories of the kernel; return whether this process can."""
    opened = resident.moving.held(call.token, Outgoing).open(call.addresses)
    return values.Opened(opened=opened)


def take(resident: Resident, call: values.Take) -> tuple[Done, bytes]:
    """Return the bytes of parts of offered arrays."""
    return Done(), resident.moving.held(call.token, ArraySource).take(call.boxes)


def write(resident: Resident, call: values.Write) -> Done:
    """Write parts of offered arrays into memories of the kernel."""
    resident.moving.held(call.token, Outgoing).write(call.boxes, call.spots)
    return Done()


def receive(resident: Resident, call: values.Receive) -> Room:
    """Expect values; return which parts of their arrays are wanted."""
    place = None
    if call.sharding is not None:
        value = evaluate(resident, call.sharding, number=call.number)
        place = resident.framework.arrays().placed(value, call.sharding)
    resident.moving.end()
    held = Incoming(call.arrays, place=place)
    resident.moving.begin(call.token, held)
    return held.describe()


def share(resident: Resident, call: values.Share) -> values.Shared:
    """Make memories that messages are to fill; return their addresses."""
    addresses = resident.moving.held(call.token, ArraySink).share(call.sizes, call.spots)
    return values.Shared(addresses=tuple(addresses))


def join(resident: Resident, call: values.Join) -> values.Joined:
    """Take memories of another process; return whether this process can."""
    joined = resident.moving.held(call.token, Incoming).join(call.addresses, call.spots)
    return values.Joined(joined=joined)


def put(resident: Resident, call: values.Put, data: Buffer) -> Done:
    """Copy the bytes of the buffer into memories made here."""
    sink, left = resident.moving.held(call.token, ArraySink), memoryview(data)
    for one in call.stretches:
        sink.put(one.memory, one.at, left[: one.nbytes])
        left = left[one.nbytes :]
    return Done()


def ready(resident: Resident, call: values.Ready, structure: Buffer) -> Done:
    """Make the values that have come; they get their names when they are made on all processes."""
    incoming = resident.moving.held(call.token, Incoming)
    try:
        incoming.make(structure)
    except Exception as error:
        raise ArrayError(
            f"What was pushed could not be made on {resident.where}: "
            f"{error_text(error)}. Nothing was changed."
        ) from error
    return Done()


def set_names(resident: Resident, call: values.SetNames) -> Named:
    """Put the values into the user's namespace."""
    found = resident.moving.held(call.token, Incoming).values()
    resident.shell.user_ns.update(found)
    resident.moving.end(call.token)
    return Named(names=tuple(found))


def let_go(resident: Resident, call: values.LetGo) -> Done:
    """Drop the value that was on its way."""
    resident.moving.end(call.token)
    return Done()
