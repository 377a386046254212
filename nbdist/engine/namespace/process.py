"""State of a process other than the user's names: read on a surviving process, set on one that replaces another.

`ProcessState` covers settings of Python and its libraries, modules (both through the modules beside this one), and
what cells have changed in IPython: extensions, magics, hooks, and how things are shown (`of_shell`).
"""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
import types
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
from nbdist.engine.namespace.things import (
    PLAIN,
    Carried,
    Fixed,
    Mine,
    Objects,
    SingleThing,
    ThingFamily,
    ThingKind,
    attribute,
    digest,
    name_of,
)
from nbdist.errors import error_text
from nbdist.ipython_private import autoreloader

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
        """Take the present state of the process as the state that every process of its kind has at its start."""
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
        """Return the states of Python's and NumPy's random numbers, if the user has seeded or drawn any."""
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
        """Return digests of library constants that differ from those on the process that sent its things."""
        return {name: digest(repr(one), key) for name, one in unlike(self._constants).items()}

    def packed(self, read: Read, frameworks: Collection[Objects], reference: Reference) -> bytes:
        """Return a pickle of everything that can be set on another process, each thing in a pickle of its own.

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
        """Set early things again, such as random numbers, since libraries imported later may have changed them."""
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
        """Return the things to set before the user's modules are imported, such as their search path."""
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


OWN_TRAITS = (
    "history_length",
    "history_load_length",
    "ipython_dir",
    "logfile",
    "logappend",
    "logstart",
)
"""Options of the shell that each process has for itself."""


def of_shell(shell: Any, mine: Mine) -> tuple[ThingKind, ...]:
    """Return all kinds of this module, in the order in which they are set."""
    formatter = shell.display_formatter.formatters["text/plain"]
    return (
        extensions(shell),
        traits(shell),
        attribute("precision", formatter, "float_precision"),
        SingleThing(
            "%xmode",
            lambda: shell.InteractiveTB.mode,
            lambda v: shell.InteractiveTB.set_mode(mode=v),
        ),
        attribute("%pdb", shell, "call_pdb"),
        SingleThing(
            "aliases", lambda: sorted(shell.alias_manager.aliases), lambda v: _define(shell, v)
        ),
        magic_functions(shell, mine),
        printers(shell, mine),
        Functions(shell, mine),
        SingleThing("custom exceptions", lambda: _custom_exceptions(shell), lambda _: None),
    )


def _custom_exceptions(shell: Any) -> Fixed:
    """Return the exceptions for which somebody has set a function, which cannot be read, with `set_custom_exc`."""
    try:
        return Fixed(", ".join(map(name_of, shell.custom_exceptions)))
    except TypeError:
        raise LookupError from None


def _define(shell: Any, aliases: list[tuple[str, str]]) -> None:
    for name, command in set(aliases) - set(shell.alias_manager.aliases):
        shell.alias_manager.soft_define_alias(name, command)


def extensions(shell: Any) -> ThingFamily:
    """Return the loaded extensions."""
    manager = shell.extension_manager

    def load(_: str, name: str) -> None:
        if manager.load_extension(name) == "no load function":
            raise ImportError(f"{name} is no extension of IPython")

    return ThingFamily("extension ", lambda: {name: name for name in manager.loaded}, load)


class Autoreload:
    """The mode of `%autoreload`, and which version of each of the user's modules it has seen.

    Both are in `nbdist.ipython_private.autoreloader`.
    """

    MODE = ("enabled", "check_all", "autoload_obj", "hide_errors", "modules", "skip_modules")

    def __init__(self, shell: Any, modules: frozenset[str]) -> None:
        self._registry, self._modules = shell.magics_manager.registry, modules

    def read(self) -> Mapping[str, Any]:
        """Return the mode and the versions of the user's modules; nothing where `%autoreload` is not loaded."""
        its = autoreloader(self._registry)
        if its is None:
            return {}
        mode = {name: getattr(its, name) for name in self.MODE if hasattr(its, name)}
        seen = [self._of_users(one) for one in self._seen(its)]
        return {"%autoreload": Carried(repr(mode), (mode, seen))}

    def write(self, name: str, value: Any) -> None:
        """Set the mode and the versions."""
        its = autoreloader(self._registry)
        mode, seen = value
        for option, one in mode.items():
            setattr(its, option, one)
        for here, there in zip(self._seen(its), seen, strict=False):
            here.update(there)

    def _seen(self, its: Any) -> list[dict[str, Any]]:
        sources = getattr(getattr(its, "deduper_reloader", None), "source_by_modname", None)
        return [its.modules_mtimes, *([sources] if isinstance(sources, dict) else [])]

    def _of_users(self, seen: Mapping[str, Any]) -> dict[str, Any]:
        return {name: one for name, one in seen.items() if name in self._modules}


def traits(shell: Any) -> ThingFamily:
    """Return the options that `%config` sets, as far as they are plain values or simple containers."""

    def every() -> dict[str, Any]:
        names = [name for name in shell.trait_names(config=True) if name not in OWN_TRAITS]
        found = {name: getattr(shell, name) for name in names}
        return {n: one for n, one in found.items() if type(one) in (*PLAIN, list, tuple, set)}

    return ThingFamily("IPython's ", every, lambda name, value: setattr(shell, name, value))


def magic_functions(shell: Any, mine: Mine) -> ThingFamily:
    """Return the magics that cells have defined, as functions or as classes."""
    manager = shell.magics_manager

    def defined() -> dict[str, Any]:
        found = {}
        for kind, sign in (("line", "%"), ("cell", "%%")):
            for name, function in manager.magics[kind].items():
                if function in mine:
                    owner = getattr(function, "__self__", None)
                    made = function if owner is None else type(owner)
                    found[sign + name] = (kind, name, made)
        return found

    def register(_: str, value: Any) -> None:
        kind, name, function = value
        if not isinstance(function, type):
            shell.register_magic_function(function, kind, name)
        elif function.__name__ not in manager.registry:
            shell.register_magics(function)

    return ThingFamily("magic ", defined, register)


def printers(shell: Any, mine: Mine) -> ThingFamily:
    """Return the functions that show objects, if the function or the objects' class is the user's."""
    formatters = shell.display_formatter.formatters

    def registered() -> dict[str, Any]:
        return {
            f"{name_of(kind)} as {mime}": (mime, kind, function)
            for mime, formatter in formatters.items()
            for kind, function in formatter.type_printers.items()
            if kind in mine or function in mine
        }

    def register(_: str, value: Any) -> None:
        mime, kind, function = value
        formatters[mime].for_type(kind, function)

    return ThingFamily("printer of ", registered, register)


class Functions:
    """Functions of the user's that IPython calls around cells, or to transform cells."""

    TRANSFORMERS = ("input_transformers_cleanup", "input_transformers_post", "ast_transformers")

    def __init__(self, shell: Any, mine: Mine) -> None:
        self._shell, self._mine = shell, mine

    def read(self) -> Mapping[str, Any]:
        """Return the functions by their event or list of transformers."""
        places = {
            **{event: list(called) for event, called in self._shell.events.callbacks.items()},
            **{name: list(getattr(self._shell, name)) for name in self.TRANSFORMERS},
        }
        return {
            f"{place}: {name_of(one)}": (place, one)
            for place, called in places.items()
            for one in called
            if one in self._mine and not isinstance(one, types.MethodType)
        }

    def write(self, name: str, value: Any) -> None:
        """Add a function to a list of transformers, or register it for an event."""
        place, function = value
        if place in self.TRANSFORMERS:
            getattr(self._shell, place).append(function)
        else:
            self._shell.events.register(place, function)
