"""State of IPython that cells have changed: extensions, magics, hooks, and how things are shown."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from nbdist.engine.namespace.things import (
    PLAIN,
    Carried,
    Fixed,
    Mine,
    SingleThing,
    ThingFamily,
    ThingKind,
    attribute,
    name_of,
)
from nbdist.ipython_private import autoreloader

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
    """Return the functions that show objects, where the function or the objects' class is the user's."""
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
