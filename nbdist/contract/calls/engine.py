"""Calls about an engine: its identity, its start, how its cells ended, what must agree, completions of names.

`Evaluating` and `EvaluatingExpression` are the bases of the calls that may compute on other processes' devices. At
the end stand the parameters of a start, a type for each stage of a framework. `Initialize` carries them as
plain data, since only the two halves of the session's framework know their classes: in
`nbdist.launch.frameworks` and in `nbdist.engine.frameworks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeVar

from msgspec import structs

from nbdist.contract.calls import PROTOCOL, Call
from nbdist.contract.cells import Facts
from nbdist.contract.iopub import Kept
from nbdist.contract.wire import Data, Plain, Tagged, decode


class OtherNbdist(Data):
    """Answer of an engine with another version of nbdist; only its version and where it runs are read."""

    nbdist: str
    host: str
    process_id: int | None = None


class Membership(Data):
    """The number of a process in its framework's cluster, and how many processes the cluster has."""

    process_id: int
    count: int


class UsedDevices(Data):
    """A framework's devices: how many here (`local`) and in its cluster (`everywhere`), and of which platform."""

    local: int
    everywhere: int
    platform: str


class Described(Data):
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


class Who(Call[Described | OtherNbdist]):
    """Call to describe an engine that nbdist has not started; changes nothing.

    Attributes:
      framework: The framework of the session.
      controller: The address at which its host reaches ipyparallel's controller.
    """

    framework: str
    controller: str

    @classmethod
    def answer_from(cls, data: Plain) -> Described | OtherNbdist:
        """Read an answer, as for any call; of another protocol, read only the identity of the engine."""
        return _other(data) or decode(Described, data)


class Late(Data):
    """The names of variables that came too late to have an effect."""

    names: tuple[str, ...]


class Prepare(Call[Late]):
    """Call to set variables that a process which nbdist starts has from its first moment."""

    environment: Mapping[str, str]
    framework: str


class Greeted(Data):
    """Identity of an engine: versions, process id, where it runs, and its routing name."""

    protocol: int
    nbdist: str
    python: str
    process_id: int
    host: str
    pid: int
    ident: str


class Greet(Call[Greeted | OtherNbdist]):
    """The first message: makes the engine ready. `process_id` is None if the engine's environment has it."""

    NAME = "hello"  # an engine of another version must know it
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


class Initialized(Data):
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
        known = {name: value for name, value in structs.asdict(self).items() if value is not None}
        return structs.replace(earlier, **known)


class Initialize(Call[Initialized]):
    """Call to join the framework's cluster; blocks until all processes have joined.

    Attributes:
      stage: One entry of the launch side's `stages`, encoded: see `nbdist.contract.calls.engine`.
    """

    INTERRUPTIBLE: ClassVar[bool] = True
    stage: Any


class Completions(Data):
    """The text before the cursor that is replaced, and the texts that may replace it."""

    text: str
    matches: tuple[str, ...]


class Complete(Call[Completions]):
    """Call to complete `code` at `cursor`, a position in characters."""

    INTERRUPTIBLE: ClassVar[bool] = True
    GLANCES: ClassVar[bool] = True
    code: str
    cursor: int


class Inspected(Data):
    """IPython's help for a name, by MIME type; texts only."""

    data: Mapping[str, str]


class Inspect(Call[Inspected]):
    """Call to return IPython's help for `symbol?` (detail 0) or `symbol??` (detail 1)."""

    INTERRUPTIBLE: ClassVar[bool] = True
    GLANCES: ClassVar[bool] = True
    symbol: str
    detail: int


class Looked(Data):
    """The number of the newest report; 0 if nothing reports."""

    sequence: int


class Look(Call[Looked]):
    """Call to have the probe report changes now, with `again` also all that was reported before."""

    timeout_s: float
    again: bool = False


class CellEnd(Data):
    """How the cell of a request ended: its exception (None if it succeeded), and when, in Unix seconds."""

    request: str
    error: str | None
    time: float


class Recalled(Data):
    """How a cell ended, None if that is not known, and the part of its output that is kept."""

    end: CellEnd | None
    kept: Kept


class Recall(Call[Recalled]):
    """Call to find out how the cell of a request ended.

    The call waits behind that cell in the engine's queue, so the answer comes when the cell has ended.
    """

    request: str


class LastFailure(Data):
    """The exception of the last cell that failed; None if no cell failed."""

    error: str | None


class AskLastFailure(Call[LastFailure]):
    """Call to return the exception of the last cell that failed here."""

    NAME: ClassVar[str] = "failure"


class ImportedModules(Data):
    """The names of modules."""

    modules: tuple[str, ...]


class AskImported(Call[ImportedModules]):
    """Call to find the modules of the process that come from these files."""

    paths: tuple[str, ...]


class Agreement(Data):
    """Digests or facts, by topic, that must be equal on all processes before they run a cell."""

    digests: Mapping[str, str] | None = None
    facts: Facts | None = None


class AskAgreement(Call[Agreement]):
    """Call to compute digests or facts that must be equal before the cell `code`; runs nothing of the cell.

    Attributes:
      code: The cell.
      topics: The topics whose facts are wanted; None: the digests of all topics.
    """

    code: str
    topics: tuple[str, ...] | None = None


A = TypeVar("A", covariant=True)


class Evaluating(Call[A]):
    """A call that may compute on the devices of other processes, as code that a person wrote does.

    All processes may have to run it at the same time.

    Attributes:
      number: The number of the proof that follows, if all processes take part at the same time; None for a call
        that computes nothing, such as a name.
    """

    INTERRUPTIBLE: ClassVar[bool] = True
    number: int | None = None

    def unwanted(self) -> Self:
        """Return this call for a process that only takes part, and whose answer nobody wants."""
        return self


class EvaluatingExpression(Evaluating[A]):
    """A call that evaluates an expression in the user's namespace."""

    expression: str


class EmptyStage(Data):
    """Stage of a framework that needs no parameters."""


class JaxStage(Data):
    """Stage that joins a cluster of JAX.

    Attributes:
      processes: How many there are.
      devices: Virtual CPU devices of this process; None: what the platform gives.
      arguments: Keyword arguments of `jax.distributed.initialize`; None: the user calls it.
      gloo: The address of this host on which gloo is to listen; None: as JAX chooses.
    """

    processes: int
    devices: int | None
    arguments: Mapping[str, Any] | None
    gloo: str | None


class KerasArguments(Data):
    """The arguments of `keras.distribution.initialize`."""

    job_addresses: str
    num_processes: int
    process_id: int


class KerasStage(Data):
    """Stage that joins a cluster of Keras.

    Attributes:
      backend: The back end that Keras must compute with.
      devices: Virtual CPU devices of this process; None: what the platform gives.
      arguments: None: the user calls `keras.distribution.initialize`.
      jax: Keyword arguments that `jax.distributed.initialize` gets beyond what Keras gives it.
      gloo: The address of this host on which gloo is to listen; None: as JAX chooses.
      late: Whether the others have already joined each other, so that they take no part in Keras' start.
    """

    backend: str
    devices: int | None
    arguments: KerasArguments | None
    jax: Mapping[str, Any]
    gloo: str | None
    late: bool = False


class DevicesStage(Tagged):
    """Stage that says which devices TensorFlow has on this process.

    Attributes:
      platform: `"cpu"` hides GPUs.
      devices: Logical CPU devices to make; None: one.
      local_device_ids: The GPUs this process may use; None: all.
    """

    platform: str
    devices: int | None
    local_device_ids: tuple[int, ...] | None
    kind: ClassVar[Literal["devices"]] = "devices"


class StrategyStage(Tagged):
    """Stage that makes the strategy of TensorFlow.

    Attributes:
      tf_config: `TF_CONFIG`, JSON; None for a process alone.
      role: The role of this process.
      process_id: The id of this process.
      workers: The process ids of all workers, in the order of their tasks.
      again: Whether there was a strategy before, whose cluster is broken; TensorFlow forgets it first.
    """

    tf_config: str | None
    role: Literal["worker", "evaluator"]
    process_id: int
    workers: tuple[int, ...]
    again: bool = False
    kind: ClassVar[Literal["strategy"]] = "strategy"


TensorFlowStage = DevicesStage | StrategyStage
