"""Hooks into other libraries: their functions and methods, replaced for a while and then restored."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Unhook = Callable[[], None]
"""A function that removes a hook."""


@dataclass(frozen=True, slots=True)
class PrivateName:
    """A name that another library does not document; it may be gone in its next release."""

    module: str
    name: str

    def get(self) -> Any | None:
        """Return the value of the name; None if the module is not imported or the name is gone."""
        return getattr(sys.modules.get(self.module), self.name, None)

    def set(self, value: Any) -> None:
        """Replace the value, in a module that has been imported."""
        setattr(sys.modules[self.module], self.name, value)


def replaced(owner: Any, name: str, value: Any) -> Unhook:
    """Set an attribute of a class or module; return a function that restores its own or inherited value."""
    inherited, own = name not in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    return lambda: delattr(owner, name) if inherited else setattr(owner, name, own)


def imported(package: str) -> Any | None:
    """Return a package that has been imported; None before, and while its import is not complete."""
    found = sys.modules.get(package)
    return None if getattr(getattr(found, "__spec__", None), "_initializing", False) else found


class Hooked:
    """An object that follows another library through a hook, placed as soon as the library allows it."""

    _unhook: Unhook | None = None

    def placed(self) -> Unhook | None:
        """Place the hook; return a function that removes it, or None while the library cannot be hooked."""
        raise NotImplementedError

    def hook(self) -> bool:
        """Follow every change from now on; return False while the library cannot be hooked."""
        if self._unhook is None:
            self._unhook = self.placed()
        return self._unhook is not None

    def unhook(self) -> None:
        """Restore the library to what it was without the hook."""
        unhook, self._unhook = self._unhook, None
        if unhook is not None:
            unhook()
