"""State of a process beside the user's names: read on one that lives on, set on one that replaces another."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nbdist.engine.agreement.reads import UsersModules
from nbdist.engine.namespace.modules import (
    Constants,
    Patches,
    described,
    imported,
    places_of,
    unlike,
)
from nbdist.engine.namespace.packing import Reference, packed, unpacked
from nbdist.engine.namespace.settings import ENVIRONMENT, AtExit, Baseline, Streams, settings
from nbdist.engine.namespace.shell import Autoreload, of_shell
from nbdist.engine.namespace.things import (
    Carried,
    Fixed,
    Mine,
    Objects,
    ThingKind,
    digest,
)
from nbdist.errors import error_text

Read = Sequence[tuple[ThingKind, Mapping[str, Any]]]
"""Each kind of things, with the things of this process by name."""

Look = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""Returns digests of values by name; none for a value that cannot be looked at."""


class ProcessState:
    """State of one process, from the moment at which it is ready for cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._modules = UsersModules()
        self._at_exit = AtExit()
        self._constants: Constants = {}
        self._taken: tuple[Mapping[str, Mapping[str, bytes | str]], frozenset[str]] = (
            {},
            frozenset(),
        )
        self.begin()

    def begin(self) -> None:
        """Take the present state of the process as the one that every such process has at its start."""
        self._baseline = Baseline.now()

    @property
    def modules(self) -> UsersModules:
        """The user's modules."""
        return self._modules

    def read(self, frameworks: Collection[Objects], *, patches: bool = True) -> Read:
        """Return all things by kind and name.

        Args:
          frameworks: Objects of the imported frameworks.
          patches: Whether to look for patches of libraries, which takes 0.1 s in a new process.
        """
        _, mine = self._users()
        kinds = (*self._early(mine), *self._late(mine, frameworks))
        return [(kind, _read(kind)) for kind in kinds if patches or not isinstance(kind, Patches)]

    def streams(self) -> Mapping[str, Any]:
        """Return the states of Python's and NumPy's random numbers, where somebody has seeded or drawn any."""
        return Streams(self._baseline.drawn, self._shell.user_ns).read()

    @property
    def is_patched(self) -> bool:
        """Return whether libraries can be patched: patches were sent here, or the user has modules."""
        sent, _ = self._taken
        return bool(sent.get(Patches.__name__)) or len(self._users()[0]) > 0

    def digests(self, read: Read, look: Look, key: str) -> dict[str, str]:
        """Return a digest of each thing by name, equal where the thing is equal.

        Args:
          read: As `read` returns it.
          look: Looks at values in modules.
          key: Of the digests.
        """
        users, mine = self._users()
        texts = described(users, mine, look)
        for _, values in read:
            texts |= {name: mine.text(value) for name, value in values.items()}
        return {name: digest(text, key) for name, text in texts.items()}

    def constants(self, key: str) -> dict[str, str]:
        """Return digests of library constants that differ from those of the process whose things were taken."""
        return {name: digest(repr(one), key) for name, one in unlike(self._constants).items()}

    def packed(self, read: Read, frameworks: Collection[Objects], reference: Reference) -> bytes:
        """Return a pickle of everything that can be set elsewhere, each thing in a pickle of its own.

        Args:
          read: As `read` returns it.
          frameworks: As for `read`.
          reference: Returns the stand-in for a device, a mesh or a sharding.
        """
        users, _ = self._users()
        sent: dict[str, dict[str, bytes | str]] = {}
        for kind, values in read:
            its = sent[_key(kind)] = {}
            for name, value in values.items():
                if type(value) is not Fixed:
                    its[name] = self._pickled(value, reference)
                elif value.why:
                    its[name] = value.why
        places = {name: places_of(one) for name, one in users.items()}
        libraries = [name for one in frameworks for name in one.modules if name in sys.modules]
        constants = [kind.constants for kind, _ in read if isinstance(kind, Patches)]
        return pickle.dumps((libraries, places, sent, *constants))

    def _pickled(self, value: Any, reference: Reference) -> bytes | str:
        """Return the pickle, or the reason why there is none."""
        value = value.value if type(value) is Carried else value
        try:
            return packed(value, self._shell.user_ns, reference, lambda _: None)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - any object's own
            return error_text(error)

    def take(
        self, state: Any, own: Collection[str], frameworks: Collection[Objects], referent: Reference
    ) -> dict[str, str]:
        """Set the things of another process.

        Args:
          state: As `packed` has made it there.
          own: Names of things that each process has of its own; these are left as they are.
          frameworks: As for `read`.
          referent: Returns the device, mesh or sharding for a stand-in.

        Returns:
          Why a thing could not be set, by name.
        """
        # The pickle only ever comes from an engine of this session, which has its key.
        libraries, users, sent, self._constants = pickle.loads(bytes(state))
        mine = Mine(users)
        self._taken = sent, frozenset(own)
        failed = self._set_all(self._early(mine), mine, referent)
        for name in libraries:
            with contextlib.suppress(ImportError):  # things that need the library are reported
                importlib.import_module(name)
        with contextlib.ExitStack() as stack:
            for one in frameworks:
                stack.enter_context(one.unpickling())
            failed |= imported(users)
            failed |= self._set_all(self._late(mine, frameworks), mine, referent)
        return failed

    def settle(self, referent: Reference) -> None:
        """Set early things again, such as random numbers: libraries imported since may have changed them."""
        mine = self._users()[1]
        self._set_all(self._early(mine), mine, referent)

    def _set_all(
        self, kinds: Iterable[ThingKind], mine: Mine, referent: Reference
    ) -> dict[str, str]:
        """Set the things that differ; return why a thing could not be set, by name."""
        sent, own = self._taken
        failed = {}
        for kind in kinds:
            its = sent.get(_key(kind), {})
            there = _read(kind) if its else {}  # to look for patches takes a while
            for name in (name for name in its if name not in own):
                why = self._set(kind, name, its[name], there, mine, referent)
                if why is not None:
                    failed[name] = why
        return failed

    def _set(
        self,
        kind: ThingKind,
        name: str,
        data: bytes | str,
        there: Mapping[str, Any],
        mine: Mine,
        referent: Reference,
    ) -> str | None:
        """Set one thing where it differs; return why it could not be set, None if nothing failed."""
        if isinstance(data, str):
            return data
        try:
            value = unpacked(data, self._shell.user_ns, referent)
            plain = type(there.get(name)) not in (Fixed, Carried)
            if name not in there or not plain or mine.text(there[name]) != mine.text(value):
                kind.write(name, value)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own
            return _why(kind, error)
        return None

    def _users(self) -> tuple[dict[str, Any], Mine]:
        users = self._modules.find()
        return users, Mine(users)

    def _early(self, mine: Mine) -> Iterable[ThingKind]:
        """Return things set before the user's modules are imported: their search path, and what they then see."""
        self._at_exit.mine = mine
        return settings(self._baseline, mine, self._at_exit, self._names(mine))

    def _names(self, mine: Mine) -> dict[str, Any]:
        """Return the names of the namespace and of all modules of the user's, with their values."""
        found = dict(self._shell.user_ns)
        for name in mine.modules - {"__main__"}:
            its = getattr(sys.modules.get(name), "__dict__", {})
            found |= {f"{name}.{key}": value for key, value in its.items()}
        return found

    def _late(self, mine: Mine, frameworks: Collection[Objects]) -> Iterable[ThingKind]:
        return (
            *(kind for one in frameworks for kind in one.things(mine)),
            *of_shell(self._shell, mine),
            Patches(mine),
            Autoreload(self._shell, mine.modules),
        )


def _read(kind: ThingKind) -> Mapping[str, Any]:
    """Return the things of a kind on this process; where reading them raises, one thing with the reason."""
    try:
        return kind.read()
    except Exception as error:  # noqa: BLE001 - the user's own
        why = f"reading it raised {_why(kind, error)}"
        return {_key(kind): Fixed(why, why)}


def _why(kind: ThingKind, error: BaseException) -> str:
    # The value of an environment variable is a secret.
    return type(error).__name__ if _key(kind) == ENVIRONMENT else error_text(error)


def _key(kind: ThingKind) -> str:
    return str(getattr(kind, "name", type(kind).__name__))
