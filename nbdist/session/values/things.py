"""State of processes beside their names, and the comparison of what a new process has of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

DRAWN = ("Python's random state", "NumPy's random state")
"""Streams that programs seed per process as often as equally on all; they are reported with the names."""

COUNTS = ("code of ", "patched ", "pytree ", "jax_", *DRAWN)
"""Prefixes of the names of things that change computed numbers, as values of modules do as well."""


@dataclass
class CarriedThings:
    """Things on their way from the source to a new process.

    Attributes:
      there: The digests on the source, by name.
      others: The digests on each other living process.
      unlike: Things that differ between the new process and the source, each with the reason, empty if unknown.
    """

    there: Mapping[str, str]
    others: Sequence[Mapping[str, str]]
    unlike: Mapping[str, str] = field(default_factory=dict)
    _failed: Mapping[str, str] = field(default_factory=dict)
    _again: frozenset[str] = frozenset()

    @property
    def own(self) -> tuple[str, ...]:
        """Things that differ between living processes: a new process takes none of them."""
        names = {name for one in (self.there, *self.others) for name in one}
        return tuple(
            sorted(n for n in names if any(one.get(n) != self.there.get(n) for one in self.others))
        )

    @property
    def each_own(self) -> tuple[str, ...]:
        """Things in `own`, except those that were set again and are therefore right."""
        return tuple(name for name in self.own if name not in self._again)

    @property
    def streams(self) -> tuple[str, ...]:
        """Streams that the new process has from the source, like the names."""
        apart = {*self.own, *self._again}
        return tuple(name for name in DRAWN if name in self.there and name not in apart)

    def set(
        self,
        now: Mapping[str, str],
        *,
        failed: Mapping[str, str] | None = None,
        again: Collection[str] = (),
    ) -> None:
        """Take the things of the new process as they are now.

        Args:
          now: Its digests.
          failed: Why things could not be set, by name.
          again: Things that the user's functions have set.
        """
        self._failed = {**self._failed, **(failed or {})}
        self._again = frozenset(again)
        left = self.there.keys() | now.keys() - self._again - set(self.own)
        self.unlike = {
            name: self._failed.get(name, "")
            for name in sorted(left - self._again - set(self.own))
            if now.get(name) != self.there.get(name)
        }


def changes_numbers(thing: str) -> bool:
    """Return whether a cell may compute other numbers if this thing differs."""
    return thing.startswith(COUNTS) or (" " not in thing and "." in thing and "'" not in thing)
