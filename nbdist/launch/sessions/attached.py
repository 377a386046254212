"""Engines that ran before this kernel came: what a person means by `--attach`, and how the kernel holds them.

They belong to a session of nbdist's, or to a cluster of ipyparallel's that somebody else has started.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.contract.calls.engine import Initialized
from nbdist.contract.cells import Rules
from nbdist.contract.events import Fault
from nbdist.contract.orders import NewProcess
from nbdist.contract.questions import Aside, Question
from nbdist.errors import SessionError
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.fifo_channel import ProcessHandle
from nbdist.launch.files.sync import Files
from nbdist.launch.model.happenings import AgentEvents, ProcessExit, ProcessLost
from nbdist.launch.model.hosts import HostInfo
from nbdist.launch.model.plan import Plan
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import Record
from nbdist.launch.start.cluster import Cluster
from nbdist.machine import folder as folders
from nbdist.message_guard import MessageGuard
from nbdist.spelling import Placeholder, command

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedCluster:
    """The parts of a session that this kernel does not start, with all known facts about its engines.

    `session` is its id, `asked` the plan as a person asked for it. `answers` are the frameworks' answers by
    process id, empty if the frameworks are still to be initialized. `ours` says whether this kernel may stop it;
    other engines it only leaves. `rules` are those that the session was started with. `began` is when attaching
    began (monotonic), `remarks` are sentences that a person should read.
    """

    session: str
    link: Cluster
    asked: Plan
    answers: Mapping[int, Initialized]
    ours: bool
    began: float
    rules: Rules
    remarks: tuple[str, ...] = ()


NEEDED = ("interface", "key", "iopub", "signature_scheme", "registration")
"""Fields that must be in ipyparallel's connection info for clients."""


@dataclass(frozen=True, slots=True)
class ForeignCluster:
    """A cluster that somebody else has started; `name` is the person's word for it."""

    name: str
    connection: Mapping[str, Any]


def resolve(word: str) -> Record | ForeignCluster:
    """Return the session or cluster that a person means by `--attach`.

    Args:
      word: `last`, an id of a session or its beginning, a connection file (`ipcontroller-client.json`), a cluster
        file (`cluster-….json`), or a profile of ipyparallel's.

    Raises:
      SessionError: There is no such thing; the text says what there is.
    """
    path = Path(word).expanduser()
    if path.is_file():
        return _of_file(word, path)
    if "/" in word or word.endswith(".json"):
        raise SessionError(
            f"{command('attach', word)}: there is no such file. ipyparallel writes ipcontroller-client.json into "
            "the folder `security` of the profile that was started."
        )
    if word != "last" and (profile := _profile_file(word)) is not None:
        return _of_file(word, profile)
    try:
        return registry.find(word)
    except SessionError as error:
        if word == "last":
            raise
        raise SessionError(
            f"{error} A profile of ipyparallel's of this name has no connection file either; a file can be named "
            f"as well: {command('attach', Placeholder('FILE'))}."
        ) from None


def _of_file(word: str, path: Path) -> Record | ForeignCluster:
    for record in registry.sessions():
        if Path(record.connection).resolve() == path.resolve():
            return record
    return ForeignCluster(word, read_connection(path))


def read_connection(path: Path) -> dict[str, Any]:
    """Return ipyparallel's connection info for clients, from its connection file or from a cluster file.

    Raises:
      SessionError: The file is neither, or cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SessionError(f"{path} is no connection file of ipyparallel's: {error}.") from error
    if isinstance(content, dict) and isinstance(content.get("cluster"), dict):
        return read_connection(_beside(path, content["cluster"]))
    if not isinstance(content, dict) or any(name not in content for name in NEEDED):
        engines = " It is that of the engines." if "-engine" in path.name else ""
        raise SessionError(
            f"{path} is no connection file of ipyparallel's for clients.{engines} Such a file is called "
            "ipcontroller-client.json, or cluster-….json."
        )
    return content


def _beside(path: Path, cluster: Mapping[str, Any]) -> Path:
    """Return the connection file of the cluster that a cluster file describes."""
    name = (
        f"ipcontroller-{cluster['cluster_id']}-" if cluster.get("cluster_id") else "ipcontroller-"
    )
    security = Path(cluster.get("profile_dir") or path.parent.parent) / "security"
    return security / f"{name}client.json"


def _profile_file(name: str) -> Path | None:
    """Return the connection file of a profile; None if it has none."""
    from IPython.paths import get_ipython_dir

    security = Path(get_ipython_dir()) / f"profile_{name}" / "security"
    path = security / "ipcontroller-client.json"
    return path if path.is_file() else None


LOOK_SECONDS = 0.2


class ForeignEngines:
    """Engines in place of a session's own agents; see `nbdist.launch.start.agents.Agents`.

    This kernel has not started the engines and does not stop them; ipyparallel passes signals and reports ends.

    Args:
      client: ipyparallel's client, which learns from the hub when an engine ends; its nannies pass signals on.
      engines: ipyparallel's engine ids by process id, looked up each time.
      folder: Removed when this kernel leaves; None: nothing is.
      home: The agent of the controller, with whose end everything ends; None: not known.
    """

    reaches_past_main_threads = False

    def __init__(
        self,
        client: Any,
        engines: Mapping[int, int],
        *,
        folder: str | None = None,
        home: ProcessHandle | None = None,
    ) -> None:
        self._home = home
        self._folder = folder
        self.others: dict[str, AgentHandle] = {}
        self.files: Files | None = None
        self.silent: dict[str, float] = {}
        self.faults: list[str] = []
        self._guard = MessageGuard("A look after the engines", logger, self._fault)
        self.events = AgentEvents()
        self._client = client
        self._engines = engines
        self._ends: dict[int, ProcessExit] = {}
        self._stopped = threading.Event()
        self._look()  # some may have ended before this kernel came
        self._watch = threading.Thread(
            target=self._look_on, name="nbdist-foreign-engines", daemon=True
        )
        self._watch.start()

    @property
    def all(self) -> tuple[AgentHandle, ...]:
        """Empty: there is no agent of ours."""
        return ()

    def of(self, process_id: int) -> AgentHandle:
        """Refuse: no agent of ours has started the process.

        Raises:
          SessionError: Always.
        """
        raise SessionError(
            "This kernel has not started these processes, and nothing of nbdist runs beside them that could do "
            f"this. Do it where they came from, or start a session with {command('start')}."
        )

    def place(self, process_id: int) -> HostInfo | None:
        """Return None: the process's host is not known."""
        return None

    def start(self, processes: Sequence[NewProcess]) -> None:
        """Refuse to start engines.

        Raises:
          SessionError: Always: only their starter can start others in their place.
        """
        raise SessionError(
            "This kernel has not started these processes and cannot replace them. Start them again where they "
            "came from, then attach again."
        )

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Make the engines' nannies pass a signal on."""
        engines = [self._engines[p] for p in process_ids if p not in self._ends]
        if engines:
            self._client.send_signal(int(number), targets=engines, block=False)

    def ask(
        self,
        what: Aside,
        process_ids: Sequence[int],
        question: Question | None = None,
    ) -> None:
        """Interrupt processes for `Aside.ABANDON`, which ends a proof too; all else needs an agent of ours."""
        if what is Aside.ABANDON:
            self.signal(signal.SIGINT, process_ids)

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop the ends of processes that another kernel has started again."""
        for process_id in process_ids:
            self._ends.pop(process_id, None)

    @property
    def controller_end(self) -> ProcessExit | None:
        """None: the controller's end is reported as the end of every engine."""
        return None

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """Ends of engines that the hub no longer has."""
        return dict(self._ends)

    def leave(self) -> None:
        """Stop watching the engines, and remove the folder."""
        self._stopped.set()
        if threading.current_thread() is not self._watch:
            self._watch.join(2.0)
        if self._folder is not None:
            folders.remove(self._folder)

    def stop(self) -> None:
        """Leave the engines: this kernel has not started them."""
        self.leave()

    def _fault(self, text: str) -> None:
        self.faults.append(text)
        self.events.publish(Fault(text=text))

    def _look_on(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        # ipyparallel's list of engines changes while it is read.
        with self._guard, contextlib.suppress(RuntimeError):
            there = set(self._client.ids)
            gone = {p for p, e in self._engines.items() if e not in there}
            because = "ipyparallel's hub has lost its engine"
            if self._home is not None and not self._home.running:
                gone, because = set(self._engines), "the session has ended with its kernel"
            for process_id in gone - set(self._ends):
                self._note(process_id, because)

    def _note(self, process_id: int, because: str) -> None:
        self._ends[process_id] = ProcessExit(
            process_id=process_id,
            pid=0,
            code=None,
            oom=False,
            time=time.time(),
            last_lines=(),
            because_of=because,
        )
        self.events.publish(ProcessLost(process_id=process_id))
