"""Entries of a namespace that is sent to another process; each may fail by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from nbdist.engine.namespace.modules import put
from nbdist.engine.namespace.objects import Objects
from nbdist.engine.namespace.placements import Placements


class Kind(Enum):
    """Kinds of entries, in the order in which they come; the value is the text that a person reads."""

    PLACEMENTS = "a setting"
    MODULE = "values of a module"
    NAME = "a name"
    HOOK = "a function for recoveries"
    FRAMEWORK = "settings of a framework"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry, with the number it had when it was first packed."""

    number: int
    kind: Kind
    name: str


@dataclass(slots=True)
class Setting:
    """Setter of entries that have come, each as soon as it is made: later ones may need it.

    Args:
      namespace: The user's dictionary on this process.
      placements: Of the framework that the session computes with.
      objects: Returns the `Objects` of a framework, by name.
    """

    namespace: dict[str, Any]
    placements: Placements
    objects: Callable[[str], Objects | None]
    names: list[str] = field(default_factory=list)
    hooks: dict[str, Any] = field(default_factory=dict)

    def set(self, entry: Entry, value: Any) -> None:
        """Set one entry.

        Raises:
          Exception: Whatever a framework or a module raises.
        """
        match entry.kind:
            case Kind.PLACEMENTS:
                self.placements.set(value)
            case Kind.MODULE:
                put({entry.name: value})
            case Kind.NAME:
                self.namespace[entry.name] = value
                self.names.append(entry.name)
            case Kind.HOOK:
                self.hooks[entry.name] = value
            case Kind.FRAMEWORK:
                its = self.objects(entry.name)
                if its is not None:
                    its.set(value)
