"""Repair of this process, in four parts that all processes take together.

`save` only copies; `leave` takes the back end down; `rejoin` joins the others at a new coordination service;
`restore` makes everything anew on the new devices. No part begins before all processes have ended the part before
it: otherwise they would wait for a process that has failed. All parts run on the main thread, while no user code
runs.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import time
import types
import weakref
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from nbdist.contract.calls.stepping import Forget, Origin, Restored, SavedForRepair, Versions
from nbdist.contract.iopub import Rescued
from nbdist.engine.frameworks.interfaces import Repairs, ThisProcess
from nbdist.engine.frameworks.jax.arrays import rescue
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.private import RUNTIME_TOKENS, base_array, client_with, on_deleted
from nbdist.engine.frameworks.jax.repair import backend
from nbdist.engine.frameworks.jax.repair.anew import (
    ArrayCopies,
    Context,
    NewDevices,
    Old,
    add_twins,
    context_now,
    deleted,
    find_old,
    free_bytes,
    live_platforms,
    remade,
    save,
    sharding_like,
)
from nbdist.engine.frameworks.jax.repair.backend import collect, prepare
from nbdist.engine.frameworks.jax.repair.become import become
from nbdist.engine.frameworks.jax.repair.survey import Twins, matters, survey
from nbdist.engine.frameworks.jax.repair.versions import (
    LastFrames,
    forget,
    mixed,
    names_by_id,
    names_of,
    names_of_arrays,
    versions,
)
from nbdist.engine.frameworks.jax.start import step_of, step_or_new
from nbdist.engine.frameworks.jax.step import Step
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN
from nbdist.errors import LostArrayError

_BUFFER = type(gc.get_referents(memoryview(b""))[0])
"""Type of the object between a NumPy array and the object whose memory the array reads."""

INTERNAL = ("jax", "jaxlib")
"""Packages whose objects may keep references to old objects, without effect on the user's program."""

UNKNOWN_SECONDS = 3.0
"""How long an array of unknown origin may take to get its values; a copy from the host takes less."""


class Repair:
    """One repair, kept from `save` until `restore` has succeeded.

    Args:
      namespace: The user's namespace.
      folder: Private to the session, for copies that do not fit in memory.
      step: Counts and proves, on the old back end and then on the new one.
    """

    def __init__(self, namespace: dict[str, Any], *, folder: Path, step: Step) -> None:
        self._namespace = namespace
        self._folder = folder
        self._step = step
        self._copies = ArrayCopies()
        self._old: Old | None = None
        self._halfway: Twins | None = None
        self._frames: LastFrames | None = None
        self._client: Any | None = None
        self._context = Context(mesh=None, default_device=None)
        self.begun = False
        self.saved: SavedForRepair | None = None

    def save(self, common: int) -> SavedForRepair:
        """Copy every live array to host memory, or to disk where memory is too small.

        Args:
          common: The serial of the last program that all processes have sent. Outputs of later programs never get
            their values, and are not waited for.
        """
        import jax

        self._frames = LastFrames()
        gc.unfreeze()  # objects from before the fork may refer to devices by now
        free = free_bytes()
        every = [a for name in live_platforms() for a in jax.live_arrays(name)]
        hopeless = partial(self._hopeless, common=common, until=time.monotonic() + UNKNOWN_SECONDS)
        self._copies = save(every, folder=self._folder, hopeless=hopeless)
        del every
        self._context = context_now()
        self.saved = SavedForRepair(
            arrays=len(self._copies.arrays),
            nbytes=self._copies.nbytes + self._copies.on_disk,
            on_disk=self._copies.on_disk,
            free=free,
            versions=self._versions(),
        )
        return self.saved

    def _hopeless(self, array: Any, common: int, *, until: float) -> bool:
        """Return whether an array waits for values that will not come; see `save`.

        Args:
          array: An array that is not ready. An array that no program computes may also be unready, for a moment.
          common: As for `save`.
          until: When an array of unknown origin is given up, as `time.monotonic()`.
        """
        dispatched = self._step.dispatched
        origin = dispatched.origins.of(array)
        generation, serial, _ = origin
        if origin != UNKNOWN and serial == 0:
            return False  # the array was there when a cell began, and no program computes it
        if self._step.stuck:
            return True
        if not dispatched.hooked or array.is_fully_addressable:
            return False
        if origin == UNKNOWN:
            # An array of a proof, or one made of values on the host in the cell that has failed.
            return time.monotonic() > until
        return generation == dispatched.generation and serial > common

    def _versions(self) -> Versions:
        lost = {id(a): r for a, r in zip(self._copies.lost, self._copies.reasons, strict=True)}
        return versions(self._namespace, self._step, lost)

    def leave(self) -> None:
        """Take the back end down, and leave the coordination service."""
        import jax
        from jax.extend.backend import clear_backends

        backend.reopen()  # after a first try in which the others have not left
        if self._old is None or self._halfway is not None:
            # A second try also replaces the objects that the first has put in place of old ones.
            self._old = find_old(self._old)
        else:
            # The old objects are the same as in the last try; the objects that refer to them may have changed.
            self._old.survey = survey(matters)
        self.begun = True
        # After a failed try, other libraries still keep the client from before it.
        self._client = self._client or client_with()
        backend.close()
        self._step.listen_anew()
        backend.leave()
        _forget_effects()
        clear_backends()
        jax.clear_caches()

    def rejoin(self, arguments: Mapping[str, Any]) -> None:
        """Join the others at a new coordination service, and start the back end.

        Args:
          arguments: The arguments of `jax.distributed.initialize`.

        Raises:
          RuntimeError: The others did not come in time, or JAX has raised an error.
        """
        try:
            backend.join(arguments)
            backend.start()
        finally:
            backend.reopen()

    def restore(
        self,
        lost: Collection[str],
        unnamed: Collection[Origin] = (),
        generation: int | None = None,
    ) -> Restored:
        """Make devices, meshes, shardings and arrays anew, and re-point every reference.

        Args:
          lost: Paths of arrays that must lose their values, since their pieces do not belong together.
          unnamed: Origins of arrays without a path that must lose their values, too.
          generation: As for `Dispatched.restart`. The kernel gives it: the processes' own numbers differ if an
            earlier repair has ended on some of them only.
        """
        import jax

        assert self._old is not None and self._frames is not None
        started = time.monotonic()
        devices = NewDevices.now(self._old.platforms)
        twins = Twins()
        clients = _clients(self._old.devices)
        add_twins(self._old, devices, twins)
        if self._client is not None and (joined := client_with()) is not None:
            twins.add(self._client, joined)
        there = array_paths(self._namespace, jax.Array)
        named = {id(base_array(array)): path for path, array in there.items()}
        self._without_values(map(base_array, there.values()), twins, devices)
        alone, _ = mixed(self._namespace, self._step, paths=lost, unnamed=unnamed)
        taken = {id(base_array(array)) for array in alone.values()}
        wrong = there.keys() & lost
        del there, alone
        gone = self._arrays(twins, devices, taken)
        every = (self._copies.arrays, self._copies.lost)
        hidden = gone - named.keys()
        emptied = [twins.of(array) for each in every for array in each if id(array) in hidden]
        del every
        count = len(self._copies.arrays)
        # If `become` fails halfway, a second try begins with the copies again.
        self._halfway = twins
        references = become(twins, self._old.survey)
        self._frames.repoint(twins)
        # The copies are used up: if the rest fails, the next repair begins with the arrays that are there now.
        self.begun, self._old, self._copies, self._halfway = False, None, ArrayCopies(), None
        self._frames = self._client = None
        self._context.restore(twins)
        jax.clear_caches()
        stale = self._stale(twins)
        del twins  # it refers to the arrays whose names are looked for
        held = names_of_arrays(emptied, self._namespace)
        del emptied
        also = forget(self._namespace, self._step, paths=lost, unnamed=[])
        self._step.until_freed(clients)
        prepared = prepare(clients)
        del clients
        # A back end is in a reference cycle. It must be freed before the ports of the new one are looked for.
        collect(prepared)
        self._step.begin(generation)
        return Restored(
            references=references,
            arrays=count,
            lost=tuple(sorted({*(named[i] for i in gone if i in named), *wrong, *also, *held})),
            stale=tuple(stale),
            seconds=time.monotonic() - started,
            ports=tuple(sorted(self._step.ports)),
        )

    def _arrays(self, twins: Twins, devices: NewDevices, taken: set[int]) -> set[int]:
        """Add the twins of all arrays; return the ids of the arrays that have no values any more."""
        gone = {id(array) for array in self._copies.lost} | taken
        pairs = zip(self._copies.arrays, self._copies.pieces, strict=True)
        for old, pieces in pairs:
            sharding = self._sharding(old, twins)
            if sharding is None:
                gone.add(id(old))
            elif id(old) in taken:
                self._stands_for(old, deleted(old, sharding, devices.local), twins)
            else:
                self._stands_for(old, remade(old, pieces, sharding, devices.local), twins)
            if self._halfway is not None and old in self._halfway:
                twins.add(self._halfway.of(old), twins.of(old))
        self._without_values(self._copies.lost, twins, devices)
        return gone

    def _without_values(self, arrays: Iterable[Any], twins: Twins, devices: NewDevices) -> None:
        """Add twins without values, for arrays that have none or have lost them.

        Without a twin, using such an array would give JAX's error that arrays lie on different devices.
        """
        lost = {id(array) for array in self._copies.lost}
        for old in arrays:
            if old in twins or not (id(old) in lost or old.is_deleted()):
                continue
            sharding = self._sharding(old, twins)
            if sharding is not None:
                # If memory is too small for a moment's zeros, the array stays as it was.
                with contextlib.suppress(RuntimeError):
                    self._stands_for(old, deleted(old, sharding, devices.local), twins)

    def _stands_for(self, old: Any, new: Any, twins: Twins) -> None:
        """Add a twin, with the origin of the old array."""
        self._step.dispatched.origins.move(old, new)
        twins.add(old, new)

    @staticmethod
    def _sharding(old: Any, twins: Twins) -> Any | None:
        new = twins.of(old.sharding)
        return sharding_like(old.sharding, twins) if new is old.sharding else new

    def _stale(self, twins: Twins) -> list[str]:
        """Return a few words for each object that has a name and still refers to an old object.

        Programs lowered or compiled apart from their function always count: their references are not visible.
        """
        import jax

        kinds = (jax.stages.Compiled, jax.stages.Lowered)
        programs = [one for one in gc.get_referrers(*kinds) if type(one) in kinds]
        holders = [h for h in twins.holders() if h not in twins and not _only_keeps_alive(h)]
        names = self._namespace
        found = (names_of(holders, names), names_of(programs, names), names_by_id(twins.ids, names))
        return sorted({text for each in found for text in each})


def _clients(devices: Iterable[Any]) -> list[Any]:
    """Return the back ends of devices, each once.

    Undocumented: `Device.client` (jaxlib 0.10.0 to 0.12.0.1). Without it the devices are returned in place of
    their back ends, which they keep alive.
    """
    found = [getattr(device, "client", device) for device in devices]
    return list({id(one): one for one in found}.values())


def _only_keeps_alive(holder: Any) -> bool:
    """Return whether nothing computes with the objects that a holder refers to.

    Such holders are the old client, and buffers whose values NumPy reads; they may stay as they are.
    """
    return type(holder) is _BUFFER or type(holder).__module__.partition(".")[0] in INTERNAL


def _forget_effects() -> None:
    """Drop the tokens that keep `jax.debug.print` and similar effects in order: they wait for lost programs."""
    tokens = RUNTIME_TOKENS.get()
    if tokens is not None:
        with contextlib.suppress(AttributeError):
            tokens.clear()


class JaxRecovery:
    """Programs compared between processes, and repair in place, as `interfaces.ArrayRecovery` has them."""

    def versions(self, process: ThisProcess) -> Versions:
        """Return which program computed each array on several processes."""
        return versions(process.shell.user_ns, step_of(process))

    def forget(self, process: ThisProcess, wrong: Forget) -> list[str]:
        """Make arrays unusable whose pieces do not belong together; return which other paths led to them."""
        names, step = process.shell.user_ns, step_or_new(process)
        return forget(names, step, paths=wrong.paths, unnamed=wrong.unnamed, whole=wrong.whole)

    def name_lost(self, process: ThisProcess, texts: Mapping[str, str]) -> None:
        """Make the use of the lost arrays at these paths an error with these texts."""
        lost_arrays().note(process.shell.user_ns, texts)

    def repair(self, process: ThisProcess) -> Repairs:
        """Return a repair of this process that has just begun."""
        return Repair(process.shell.user_ns, folder=process.folder, step=step_of(process))

    def rescue(self, namespace: dict[str, object], process_id: int) -> Rescued | None:
        """Write the named arrays of this process to a file."""
        return rescue(namespace, process_id)


class LostArrays:
    """The lost arrays of this process, each with the sentence that says why it was lost."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def note(self, namespace: dict[str, object], texts: Mapping[str, str]) -> None:
        """Note the deleted arrays at these paths.

        Args:
          namespace: The user's namespace.
          texts: The sentence for the array at each path.
        """
        import jax

        for path, array in array_paths(namespace, jax.Array).items():
            if path in texts and array.is_deleted():
                held = base_array(array)  # a typed key is used through the array that it holds
                forget = functools.partial(self._known.pop, id(held))
                self._known[id(held)] = weakref.ref(held, forget), texts[path]
        if self._known:
            on_deleted(self._error)

    def _error(self, array: Any) -> LostArrayError | None:
        """Return the error for a deleted array; None for one that was not lost, but donated or deleted."""
        reference, text = self._known.get(id(array), (None, ""))
        if reference is None or reference() is not array:
            return None
        error = LostArrayError(text)
        render = functools.partial(_rendered, weakref.ref(error))
        error._render_traceback_ = render  # type: ignore[attr-defined]
        return error


@functools.cache
def lost_arrays() -> LostArrays:
    """Return the lost arrays of this process."""
    return LostArrays()


def _rendered(reference: weakref.ref[BaseException]) -> list[str]:
    """Return IPython's traceback of an error, without JAX's frames at its end."""
    error = reference()
    shell = sys.modules["IPython"].get_ipython()
    trace = None if error is None else _without_jax(error.__traceback__)
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, trace)
    return lines


def _without_jax(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback that ends with the last frame outside JAX and nbdist's part for JAX."""
    inside = (f"{Path(sys.modules['jax'].__file__ or '').parent}/", str(Path(__file__).parents[1]))
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    while len(entries) > 1 and entries[-1].tb_frame.f_code.co_filename.startswith(inside):
        entries.pop()
    kept: TracebackType | None = None
    for one in reversed(entries):
        kept = types.TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept
