"""Calls by which all workers together save variables shard by shard, and restore them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nbdist.contract.calls.call import Call
from nbdist.contract.calls.evaluating import Evaluating
from nbdist.contract.calls.values import Named


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedName:
    """A variable of a save.

    Attributes:
      name: Its name.
      arrays: How many arrays it has.
      nbytes: The bytes of these arrays as wholes.
      how: How it lies after a restore, in words; empty after a save.
    """

    name: str
    arrays: int
    nbytes: int
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Variables that were saved, or that were read and have no names yet.

    Attributes:
      path: The folder, as the processes have it.
      names: The variables.
      left_out: Names that were not asked for and cannot be saved, each with the reason in words.
    """

    path: str
    names: tuple[SavedName, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveArrays(Evaluating[Saving]):
    """Call to write variables into a folder, together with all other workers.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; empty: all that hold arrays on several processes.
      token: The token of this save, part of the names of its folders and of the processes' messages.
      timeout_s: How many seconds it may take.
    """

    NAME: ClassVar[str] = "save_arrays"
    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArrays(Evaluating[Saving]):
    """Call to read variables of a save, together with all other workers; sets no name yet.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; empty: all of the save.
      token: The token of this restore; `SetRestored` has it too.
      timeout_s: How many seconds it may take.
    """

    NAME: ClassVar[str] = "read_arrays"
    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRestored(Call[Named]):
    """Call to set the names of the variables that were read."""

    NAME: ClassVar[str] = "set_restored"
    token: str
