"""Calls by which all workers together write variables by shard, and read them again."""

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
      nbytes: Their bytes in whole.
      how: How it lies after a restore, in words; empty after a save.
    """

    name: str
    arrays: int
    nbytes: int
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What has been saved, or has been read and has no names yet.

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
    """Writes variables into a folder, together with all other workers.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; none: all that hold arrays on several processes.
      token: Of this save: in the names of its folders and of what the processes exchange.
      timeout_s: How many seconds it may take.
    """

    NAME: ClassVar[str] = "save_arrays"
    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArrays(Evaluating[Saving]):
    """Reads variables of a save, together with all other workers, and sets no name yet.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; none: all of the save.
      token: Of this restore; `SetRestored` has it too.
      timeout_s: How many seconds it may take.
    """

    NAME: ClassVar[str] = "read_arrays"
    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRestored(Call[Named]):
    """Gives what has been read its names."""

    NAME: ClassVar[str] = "set_restored"
    token: str
