"""Entries as which a namespace is sent: each may fail by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from nbdist.engine.namespace.modules import put
from nbdist.engine.namespace.objects import Objects
from nbdist.engine.namespace.placements import Placements


class Kind(Enum):
    """The kinds of entries, in the order in which they come; the value is what a person reads."""

    PLACEMENTS = "a setting"
    MODULE = "values of a module"
    NAME = "a name"
    HOOK = "a function for recoveries"
    FRAMEWORK = "settings of a framework"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One of them, by its number where it was first packed."""

    number: int
    kind: Kind
    name: str


@dataclass(slots=True)
class Setting:
    """Entries that have come, each set as soon as it is made: the next ones may need it.

    Args:
      namespace: The user's dictionary on this process.
      placements: Of the framework that the session computes with.
      objects: Answers for a framework, by name.
    """

    namespace: dict[str, Any]
    placements: Placements
    objects: Callable[[str], Objects | None]
    names: list[str] = field(default_factory=list)
    hooks: dict[str, Any] = field(default_factory=dict)

    def set(self, entry: Entry, value: Any) -> None:
        """Sets one.

        Raises:
          Exception: What a framework or a module raises.
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
