"""Calls about an engine: its identity, its imports, how its cells ended, what must agree, completions of names.

`Evaluating` and `EvaluatingExpression` are the bases of the calls that may compute on other processes' devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

from nbdist.contract.calls.call import PROTOCOL, Call
from nbdist.contract.cells import Facts
from nbdist.contract.iopub import Kept
from nbdist.contract.wire import Plain, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNbdist:
    """Answer of an engine with another version of nbdist; only its version and where it runs are read."""

    nbdist: str
    host: str
    process_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The number of a process in its framework's cluster, and how many processes the cluster has."""

    process_id: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedDevices:
    """A framework's devices: how many here (`local`) and in its cluster (`everywhere`), and of which platform."""

    local: int
    everywhere: int
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Description of an engine that somebody else has started, and of the state of its framework.

    Attributes:
      protocol: See `PROTOCOL`.
      nbdist: Its version of nbdist.
      python: Its version of Python.
      host: The name of its host.
      pid: The number of its process on that host.
      ident: Its routing name.
      settled: The process id that a kernel gave it earlier; None if no kernel has.
      numbers: Numbers of the process in its environment, by variable.
      joined: Its place in a cluster of the framework; None if it is in no cluster.
      up: Whether a back end is up.
      devices: The devices of that back end; None while no back end is up.
      version: The framework's version; None if it is not installed.
      address: The address at which other hosts reach it; None if it is not known.
      port: A port reserved at that address, for services of this process.
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
    """Call to describe an engine that nbdist has not started; changes nothing.

    Attributes:
      framework: The framework of the session.
      controller: The address at which its host reaches ipyparallel's controller.
    """

    NAME: ClassVar[str] = "who"
    framework: str
    controller: str

    @classmethod
    def answer_from(cls, data: Plain) -> Described | OtherNbdist:
        """Read an answer, as for any call; of another protocol, read only the identity of the engine."""
        return _other(data) or decode(Described, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The names of variables that came too late to have an effect."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Call[Late]):
    """Call to set variables that a process which nbdist starts has from its first moment."""

    NAME: ClassVar[str] = "prepare"
    environment: Mapping[str, str]
    framework: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeted:
    """Identity of an engine: versions, process id, where it runs, and its routing name."""

    protocol: int
    nbdist: str
    python: str
    process_id: int
    host: str
    pid: int
    ident: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Call[Greeted | OtherNbdist]):
    """The first message: makes the engine ready. `process_id` is None if the engine's environment has it."""

    NAME: ClassVar[str] = "hello"
    process_id: int | None
    framework: str

    @classmethod
    def answer_from(cls, data: Plain) -> Greeted | OtherNbdist:
        """Read an answer, as for any call; of another protocol, read only the identity of the engine."""
        return _other(data) or decode(Greeted, data)


def _other(data: Plain) -> OtherNbdist | None:
    """Return the identity of an engine that uses another protocol; None for this protocol."""
    if not isinstance(data, dict) or data.get("protocol") == PROTOCOL:
        return None
    known = ("nbdist", "host", "process_id")
    return decode(OtherNbdist, {name: data[name] for name in known if name in data})


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """Facts about a process that has joined the framework's cluster; None for facts that do not apply.

    Attributes:
      version: The framework's version.
      process_id: The number of the process in the cluster.
      platform: The platform of its devices.
      local: How many devices it has.
      everywhere: How many devices all processes have together.
      ports: Ports at which other processes connect to it for collectives, if it counts and proves what it sends.
      strategy: The class of the strategy that divides the work, if there is one.
      replicas: How many replicas compute in step under that strategy.
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
        """Return this answer, completed by the fields of an earlier answer."""
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(earlier, **{name: it for name, it in known.items() if it is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialize(Call[Initialized]):
    """Call to join the framework's cluster; blocks until all processes have joined.

    Attributes:
      stage: One entry of the launch side's `stages`, encoded: see `nbdist.contract.stages`.
    """

    NAME: ClassVar[str] = "initialize"
    stage: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """The text before the cursor that is replaced, and the texts that may replace it."""

    text: str
    matches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete(Call[Completions]):
    """Call to complete `code` at `cursor`, a position in characters."""

    NAME: ClassVar[str] = "complete"
    code: str
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """IPython's help for a name, by MIME type; texts only."""

    data: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect(Call[Inspected]):
    """Call to return IPython's help for `symbol?` (detail 0) or `symbol??` (detail 1)."""

    NAME: ClassVar[str] = "inspect"
    symbol: str
    detail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The number of the newest report; 0 if nothing reports."""

    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Call[Looked]):
    """Call to have the probe report changes now, with `again` also all that was reported before."""

    NAME: ClassVar[str] = "look"
    timeout_s: float
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnd:
    """How the cell of a request ended: its exception (None if it succeeded), and when, in Unix seconds."""

    request: str
    error: str | None
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """How a cell ended, None if that is not known, and the part of its output that is kept."""

    end: CellEnd | None
    kept: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Call[Recalled]):
    """Call to find out how the cell of a request ended.

    The call waits behind that cell in the engine's queue, so the answer comes when the cell has ended.
    """

    NAME: ClassVar[str] = "recall"
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The exception of the last cell that failed; None if no cell failed."""

    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLastFailure(Call[LastFailure]):
    """Call to return the exception of the last cell that failed here."""

    NAME: ClassVar[str] = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedModules:
    """The names of modules."""

    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskImported(Call[ImportedModules]):
    """Call to find the modules of the process that come from these files."""

    NAME: ClassVar[str] = "imported"
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Digests or facts, by topic, that must be equal on all processes before they run a cell."""

    digests: Mapping[str, str] | None = None
    facts: Facts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAgreement(Call[Agreement]):
    """Call to compute digests or facts that must be equal before the cell `code`; runs nothing of the cell.

    Attributes:
      code: The cell.
      topics: The topics whose facts are wanted; None: the digests of all topics.
    """

    NAME: ClassVar[str] = "agreement"
    code: str
    topics: tuple[str, ...] | None = None


A = TypeVar("A", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating(Call[A]):
    """A call that may compute on the devices of other processes, as code that a person wrote does.

    All processes may have to run it at the same time.

    Attributes:
      number: The number of the proof that follows, if all processes take part at the same time; None for a call
        that computes nothing, such as a name.
    """

    number: int | None = None

    def unwanted(self) -> Self:
        """Return this call for a process that only takes part, and whose answer nobody wants."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatingExpression(Evaluating[A]):
    """A call that evaluates an expression in the user's namespace."""

    expression: str
