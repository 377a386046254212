"""State of IPython that cells have changed: extensions, magics, hooks, and how things are shown."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Mapping
from typing import Any

from nbdist.engine.namespace.things import (
    PLAIN,
    Carried,
    Fixed,
    Mine,
    SingleThing,
    ThingKind,
    name_of,
)

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
        Extensions(shell),
        Traits(shell),
        SingleThing(
            "precision",
            lambda: formatter.float_precision,
            lambda v: setattr(formatter, "float_precision", v),
        ),
        SingleThing(
            "%xmode",
            lambda: shell.InteractiveTB.mode,
            lambda v: shell.InteractiveTB.set_mode(mode=v),
        ),
        SingleThing("%pdb", lambda: shell.call_pdb, lambda v: setattr(shell, "call_pdb", v)),
        SingleThing(
            "aliases", lambda: sorted(shell.alias_manager.aliases), lambda v: _define(shell, v)
        ),
        MagicFunctions(shell, mine),
        Printers(shell, mine),
        Functions(shell, mine),
        CustomErrors(shell),
    )


def _define(shell: Any, aliases: list[tuple[str, str]]) -> None:
    for name, command in set(aliases) - set(shell.alias_manager.aliases):
        shell.alias_manager.soft_define_alias(name, command)


class Extensions:
    """Loaded extensions."""

    PREFIX = "extension "

    def __init__(self, shell: Any) -> None:
        self._manager = shell.extension_manager

    def read(self) -> Mapping[str, Any]:
        """Return the names of the loaded extensions."""
        return {self.PREFIX + name: name for name in self._manager.loaded}

    def write(self, name: str, value: Any) -> None:
        """Load an extension."""
        if self._manager.load_extension(value) == "no load function":
            raise ImportError(f"{value} is no extension of IPython")


class Autoreload:
    """The mode of `%autoreload`, and which version of each of the user's modules it has seen.

    Private API: `AutoreloadMagics._reloader` has both, with the times of the files that were read and, from
    IPython 9.1 on, their text in `deduper_reloader.source_by_modname`. Without it `%autoreload` is not sent.
    """

    MODE = ("enabled", "check_all", "autoload_obj", "hide_errors", "modules", "skip_modules")

    def __init__(self, shell: Any, modules: frozenset[str]) -> None:
        self._registry, self._modules = shell.magics_manager.registry, modules

    def read(self) -> Mapping[str, Any]:
        """Return the mode and the versions of the user's modules; nothing where `%autoreload` is not loaded."""
        its = self._reloader()
        if its is None:
            return {}
        mode = {name: getattr(its, name) for name in self.MODE if hasattr(its, name)}
        seen = [self._of_users(one) for one in self._seen(its)]
        return {"%autoreload": Carried(repr(mode), (mode, seen))}

    def write(self, name: str, value: Any) -> None:
        """Set the mode and the versions."""
        its = self._reloader()
        mode, seen = value
        for option, one in mode.items():
            setattr(its, option, one)
        for here, there in zip(self._seen(its), seen, strict=False):
            here.update(there)

    def _reloader(self) -> Any:
        return getattr(self._registry.get("AutoreloadMagics"), "_reloader", None)

    def _seen(self, its: Any) -> list[dict[str, Any]]:
        sources = getattr(getattr(its, "deduper_reloader", None), "source_by_modname", None)
        return [its.modules_mtimes, *([sources] if isinstance(sources, dict) else [])]

    def _of_users(self, seen: Mapping[str, Any]) -> dict[str, Any]:
        return {name: one for name, one in seen.items() if name in self._modules}


class Traits:
    """Options of the shell that `%config` sets."""

    PREFIX = "IPython's "

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def read(self) -> Mapping[str, Any]:
        """Return the options that are plain values or simple containers."""
        found = {
            self.PREFIX + name: getattr(self._shell, name)
            for name in self._shell.trait_names(config=True)
            if name not in OWN_TRAITS
        }
        return {n: value for n, value in found.items() if type(value) in (*PLAIN, list, tuple, set)}

    def write(self, name: str, value: Any) -> None:
        """Set an option."""
        setattr(self._shell, name.removeprefix(self.PREFIX), value)


class MagicFunctions:
    """Magics that cells have defined, as functions or as classes."""

    def __init__(self, shell: Any, mine: Mine) -> None:
        self._shell, self._mine = shell, mine

    def read(self) -> Mapping[str, Any]:
        """Return the kind, the name, and the function or class of each magic."""
        found = {}
        for kind, sign in (("line", "%"), ("cell", "%%")):
            for name, function in self._shell.magics_manager.magics[kind].items():
                if function in self._mine:
                    owner = getattr(function, "__self__", None)
                    found[f"magic {sign}{name}"] = (
                        kind,
                        name,
                        function if owner is None else type(owner),
                    )
        return found

    def write(self, name: str, value: Any) -> None:
        """Register a function, or a class that is not registered yet."""
        kind, name, function = value
        if not isinstance(function, type):
            self._shell.register_magic_function(function, kind, name)
        elif function.__name__ not in self._shell.magics_manager.registry:
            self._shell.register_magics(function)


class Printers:
    """Functions that show objects, where the function or the objects' class is the user's."""

    def __init__(self, shell: Any, mine: Mine) -> None:
        self._formatters, self._mine = shell.display_formatter.formatters, mine

    def read(self) -> Mapping[str, Any]:
        """Return the functions by class and MIME type."""
        return {
            f"printer of {name_of(kind)} as {mime}": (mime, kind, function)
            for mime, formatter in self._formatters.items()
            for kind, function in formatter.type_printers.items()
            if kind in self._mine or function in self._mine
        }

    def write(self, name: str, value: Any) -> None:
        """Register a function."""
        mime, kind, function = value
        self._formatters[mime].for_type(kind, function)


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


class CustomErrors:
    """Exceptions for which somebody has set a function with IPython's `set_custom_exc`."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def read(self) -> Mapping[str, Any]:
        """Return the names of the exceptions, as a thing that cannot be set."""
        with contextlib.suppress(TypeError):
            return {
                "custom exceptions": Fixed(", ".join(map(name_of, self._shell.custom_exceptions)))
            }
        return {}

    def write(self, name: str, value: Any) -> None:
        """Do nothing: the function cannot be read, nor set elsewhere."""
