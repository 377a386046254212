"""Calls about the engine itself: who it is, what it has imported, how its cells ended, what completes a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from nbdist.contract.agreement import Facts
from nbdist.contract.calls.call import PROTOCOL, Call
from nbdist.contract.echo import Kept
from nbdist.contract.wire import Plain, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNbdist:
    """What is read of an engine with another version of nbdist: that, and where it runs."""

    nbdist: str
    host: str
    process_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The number of a process in a cluster of its framework, and how many there are."""

    process_id: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedDevices:
    """How many devices a framework has, here (`local`) and in its cluster (`everywhere`), and their platform."""

    local: int
    everywhere: int
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Who an engine is that somebody else has started, and how far its framework is.

    Attributes:
      protocol: See `PROTOCOL`.
      nbdist: Its version of nbdist.
      python: Its version of Python.
      host: The name of its host.
      pid: Of its process there.
      ident: Its routing name.
      settled: The process id a kernel has given it before; None where none has.
      numbers: What its environment says of its number, by variable.
      joined: Its place in a cluster of the framework; None where it is in none.
      up: Whether a back end is.
      devices: Of that; None while none is up.
      version: Of the framework; None where it is not installed.
      address: At which other hosts reach it; None where that is not known.
      port: Reserved there, for what it may have to serve.
    """

    protocol: int
    nbdist: str
    python: str
    host: str
    pid: int
    ident: str
    settled: int | None
    numbers: Mapping[str, int]
    joined: Membership | None
    up: bool
    devices: UsedDevices | None
    version: str | None
    address: str | None
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Who(Call[Described | OtherNbdist]):
    """Who an engine is that nbdist has not started; changes nothing.

    Attributes:
      framework: What the session is to compute with.
      controller: The address at which its host reaches ipyparallel's controller.
    """

    NAME: ClassVar[str] = "who"
    framework: str
    controller: str

    @classmethod
    def answer_from(cls, data: Plain) -> Described | OtherNbdist:
        """As of any call; of another protocol only who answers."""
        return _other(data) or decode(Described, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The names of variables that came too late."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Call[Late]):
    """Puts variables in place that a process of our own has from its first moment."""

    NAME: ClassVar[str] = "prepare"
    environment: Mapping[str, str]
    framework: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeted:
    """Who an engine is: versions, its number in the plan, where it runs, and its routing name."""

    protocol: int
    nbdist: str
    python: str
    process_id: int
    host: str
    pid: int
    ident: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Call[Greeted | OtherNbdist]):
    """The first message: makes the engine ready; `process_id` None where its environment has it."""

    NAME: ClassVar[str] = "hello"
    process_id: int | None
    framework: str

    @classmethod
    def answer_from(cls, data: Plain) -> Greeted | OtherNbdist:
        """As of any call; of another protocol only who answers."""
        return _other(data) or decode(Greeted, data)


def _other(data: Plain) -> OtherNbdist | None:
    """Who answers in another protocol; None for this one."""
    if not isinstance(data, dict) or data.get("protocol") == PROTOCOL:
        return None
    known = ("nbdist", "host", "process_id")
    return decode(OtherNbdist, {name: data[name] for name in known if name in data})


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """What a process knows once it has joined the framework's cluster; None where it does not, or has none.

    Attributes:
      version: Of the framework.
      process_id: Its number there.
      platform: Of its devices.
      local: How many devices it has.
      everywhere: How many all have together.
      ports: On which others connect to it for collectives, where it counts and proves what it sends them.
      strategy: The class of what divides the work, where there is such a thing.
      replicas: How many compute in step under that.
      said: A sentence that a person must read.
    """

    version: str | None = None
    process_id: int | None = None
    platform: str | None = None
    local: int | None = None
    everywhere: int | None = None
    ports: tuple[int, ...] | None = None
    strategy: str | None = None
    replicas: int | None = None
    said: str | None = None

    def after(self, earlier: Initialized) -> Initialized:
        """This answer, and what an earlier one says beside it."""
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(earlier, **{name: it for name, it in known.items() if it is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialize(Call[Initialized]):
    """Joins the framework's cluster; blocks until all processes have.

    Attributes:
      stage: One entry of what the launch side's `stages` gives, encoded: see `nbdist.contract.stages`.
    """

    NAME: ClassVar[str] = "initialize"
    stage: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """What stands before the cursor now, and what may take its place."""

    text: str
    matches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete(Call[Completions]):
    """Completions of `code` at `cursor`, a position in characters."""

    NAME: ClassVar[str] = "complete"
    code: str
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What IPython shows for a name, by mime type; texts only."""

    data: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect(Call[Inspected]):
    """What IPython shows for `symbol?` (detail 0) or `symbol??` (detail 1)."""

    NAME: ClassVar[str] = "inspect"
    symbol: str
    detail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The number of the newest report; 0 where nothing reports."""

    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Call[Looked]):
    """Has the probe report what there is now; with `again` also what it has reported before."""

    NAME: ClassVar[str] = "look"
    timeout_s: float
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnd:
    """How the cell of a request ended: what it raised (None: it went through), and when, in Unix seconds."""

    request: str
    error: str | None
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What is known of a cell: its end, None where nothing is, and what is kept of its output."""

    end: CellEnd | None
    kept: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Call[Recalled]):
    """How the cell of a request ended.

    It is asked for behind the cell itself, in the engine's queue, so that the answer comes when it has ended.
    """

    NAME: ClassVar[str] = "recall"
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """What the last cell that failed has raised; None where none has."""

    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLastFailure(Call[LastFailure]):
    """What the last cell that failed here has raised."""

    NAME: ClassVar[str] = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedModules:
    """The names of modules."""

    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskImported(Call[ImportedModules]):
    """Which modules of the process come from these files."""

    NAME: ClassVar[str] = "imported"
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What must be equal on all processes before they run a cell: digests by topic, or facts by topic."""

    digests: Mapping[str, str] | None = None
    facts: Facts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAgreement(Call[Agreement]):
    """What must be equal before the cell `code`, of which nothing is run.

    Attributes:
      code: The cell.
      topics: Those whose facts are wanted; None: the digests of all.
    """

    NAME: ClassVar[str] = "agreement"
    code: str
    topics: tuple[str, ...] | None = None
