"""Calls that keep processes in step: counts of the programs that were sent, proofs, and the parts of a repair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from nbdist.contract.calls import Call, Done
from nbdist.contract.wire import Data


class Sent(Data):
    """Counts of the programs that a process sent to devices of others, by which processes are compared.

    Programs are counted since the processes were last in step, and in total. A proof passes on one process a
    moment before another, so that their counts may begin at different proofs: only `generation` and `serial` are
    the same on all processes that are in step. Only answers that bypass the main thread set `calling`, `raising`
    and `progress`.

    Attributes:
      programs: How many ran on all devices of the session.
      names: A checksum over their names in order.
      kinds: The same over the collectives of those that ran for the first time.
      parts: How many ran on devices of several processes, but not on all.
      generation: The number of the back end.
      serial: The serial of the last program that was sent to that back end.
      counted: False if the programs could not be counted.
      unsettled: Whether a cell has failed here since the processes were last in step.
      proven: The number of the last proof that has passed here.
      calling: Whether the main thread waits in a call that is counted when it returns.
      raising: The exception that is raised there, while `finally` or `except` runs.
      progress: Stays the same while nothing is computed or moved.
    """

    programs: int
    names: int
    kinds: int
    parts: int
    generation: int
    serial: int
    counted: bool
    unsettled: bool
    proven: int | None
    calling: bool = False
    raising: str | None = None
    progress: tuple[int, int] = (0, 0)

    @property
    def place(self) -> tuple[int, int]:
        """The program that was sent last: the back end's number, and how many programs were sent to it."""
        return self.generation, self.serial


Origin = tuple[int, int, str]
"""The program that computed an array: the back end (how many came before it), the serial of the program, and which
of its outputs. If no program computed the array, the serial is 0, and the last entry names the cell in which the
array was first seen, and its path."""


class Meet(Call[Done]):
    """Call to learn the ports at which the other processes accept connections for collectives."""

    ports: tuple[int, ...]


class Trail(Data):
    """Counts of the programs that were sent, and which programs these were.

    Attributes:
      sent: The counts.
      trail: The checksums of the newest programs.
      earliest: The serial of the first program that is not computed yet; None if all are.
      parts: Programs of the newest cell that ran on some devices only. The key names these devices and their
        processes, as `0,2/0,1`; the value is how many, and a checksum over their names in order.
      run: The number of the newest cell.
    """

    sent: Sent
    trail: tuple[int, ...]
    earliest: int | None
    parts: Mapping[str, tuple[int, int]]
    run: int


class AskSent(Call[Trail]):
    """Call to report the programs sent to devices of other processes since all processes were last in step."""

    NAME: ClassVar[str] = "step"


class RefuseEarlier(Call[Done]):
    """Call to refuse cells and expressions with a lower number from now on: another kernel has the turn."""

    number: int


class Labels(Data):
    """The newest programs since all processes were in step, in order.

    Attributes:
      labels: The names of the programs.
      kinds: The collectives of a program that ran for the first time; None for others.
      given: For each program, arrays that a cell made without a program and that this program was the first to
        get, such as `RUN: 10 float32[16]`: the cell, the arrays' numbers in it, their shapes; empty for none.
    """

    labels: tuple[str, ...]
    kinds: tuple[str | None, ...]
    given: tuple[str, ...]


class AskLabels(Call[Labels]):
    """Call to name the programs sent since all processes were last in step, and their collectives."""


class UnderWay(Data):
    """Progress of the programs that are being computed.

    Attributes:
      arrays: How many arrays are not computed yet.
      progress: Stays the same while nothing is computed or moved: tens of milliseconds of XLA's threads, and
        bytes of collectives.
    """

    arrays: int
    progress: tuple[int, int]


class AskUnderWay(Call[UnderWay]):
    """Call to report what is not computed yet, up to the program of serial `common`, which all have sent."""

    common: int


class Proven(Data):
    """How a proof ended.

    Attributes:
      passed: None if the proof did not end in time.
      alike: Whether all processes had sent the same programs before.
      error: The exception that the proof raised.
    """

    passed: bool | None
    alike: bool
    error: str | None = None


class Prove(Call[Proven]):
    """Call to take part in the proof that all processes are in step.

    Attributes:
      number: The number of the proof, the same on all processes.
      timeout_s: How long to wait for the others.
      compared: Whether the kernel has compared, by their names, the programs that the processes have sent.
    """

    number: int
    timeout_s: float
    compared: bool = False


NOT_SENT = "it waits for what other processes have not sent"
"""The reason why most lost arrays have no values."""


class Versions(Data):
    """The origins of arrays that lie on several processes.

    Attributes:
      versions: Origins by path; None for an array whose values could not be read.
      reasons: Why the values could not be read, by path.
      unnamed: For each origin, how many of its arrays no path leads to.
      generation: The number of the back end.
    """

    versions: Mapping[str, Origin | None]
    reasons: Mapping[str, str]
    unnamed: tuple[tuple[Origin, int], ...]
    generation: int


class AskVersions(Call[Versions]):
    """Call to find the program that computed each array on several processes."""


class Forgotten(Data):
    """Paths of other arrays that could not be kept, and the objects that hold arrays no path leads to."""

    lost: tuple[str, ...]


class Forget(Call[Forgotten]):
    """Call to drop arrays whose pieces do not belong together.

    Attributes:
      paths: The paths of the arrays.
      unnamed: The origins of the arrays that no path leads to.
      whole: Whether no process has all of them any more: then other paths to them are cleared too. If False, an
        array that another path also leads to, and rightly, stays at that path.
    """

    paths: tuple[str, ...]
    unnamed: tuple[Origin, ...]
    whole: bool = False


class NameLost(Call[Done]):
    """Call to make the use of lost arrays an error that says why they were lost.

    Attributes:
      texts: The sentence for the array at each path.
    """

    texts: Mapping[str, str]


class SavedForRepair(Data):
    """Copies made by the first part of a repair.

    Attributes:
      arrays: How many arrays were copied.
      nbytes: Their bytes.
      on_disk: How many of these bytes found no room in memory.
      free: Free bytes of memory before.
      versions: The origins of the arrays.
    """

    arrays: int
    nbytes: int
    on_disk: int
    free: int
    versions: Versions


class Save(Call[SavedForRepair]):
    """Call for the first part of a repair: copy all that the back end holds; changes nothing."""

    common: int


class Leave(Call[Done]):
    """Call for the second part of a repair: take the back end down."""


class Rejoin(Call[Done]):
    """Call for the third part of a repair: join the others at a new service, with the framework's `arguments`."""

    arguments: Mapping[str, Any]


class Restored(Data):
    """Objects made anew by the last part of a repair.

    Attributes:
      references: How many references were re-pointed.
      arrays: How many arrays were made.
      lost: Paths of arrays that have no values any more; for one that no path leads to, the object that holds it.
      stale: Objects that still refer to an old object, each by a name.
      seconds: How long the restore took.
      ports: Ports at which the process accepts connections for collectives now.
    """

    references: int
    arrays: int
    lost: tuple[str, ...]
    stale: tuple[str, ...]
    seconds: float
    ports: tuple[int, ...]


class Restore(Call[Restored]):
    """Call for the last part of a repair: make everything anew, except lost arrays; see `Forget`."""

    lost: tuple[str, ...]
    unnamed: tuple[Origin, ...]
    generation: int
