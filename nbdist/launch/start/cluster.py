"""`Cluster`: the processes of a session and the connection to them, from the start of their agents to the end."""

from __future__ import annotations

import contextvars
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.contract.calls.engine import Initialized
from nbdist.contract.orders import NewProcess
from nbdist.errors import SessionError
from nbdist.launch.doctor.finding import Finding
from nbdist.launch.model.framework import Rendezvous, framework_named
from nbdist.launch.model.happenings import ProcessExit
from nbdist.launch.model.hosts import HostInfo
from nbdist.launch.model.plan import Plan, PlannedProcess
from nbdist.launch.start.pool import AgentPool, Agents
from nbdist.launch.start.preflight import Preflight
from nbdist.machine import folder as folders
from nbdist.notation import ONE_HOST


@dataclass
class Cluster:
    """The processes of a session and the connection to them, from the start of their agents to the end.

    At first there are only the agents, which import modules. `nbdist.launch.start.connect.start` then starts the
    engines and connects this kernel to them. Engines that ran before this kernel came are connected at once.

    Attributes:
      session: The session's id.
      asked: The plan that was asked for.
      plan: The same plan with the hosts and ports that were found.
      folder: The session's private folder.
      agents: The agents, or `ForeignEngines` in their place.
      began: When the start, or the attachment, began (monotonic).
      preflight: The checks before the start; None for engines that ran before.
      rendezvous: Where the processes meet; its addresses are empty until all hosts have answered.
      client: ipyparallel's client; None until the engines are connected.
      engines: ipyparallel's engine ids by process id; they follow the order of registration and mean nothing else.
      idents: The names by which messages of the processes are routed, by process id.
      pids: The processes' pids, by process id.
      answers: Each process's answer to the initialization of its framework, by process id.
      connected: How many of the engines that were started last have registered.
      info: The reports of other hosts, by name.
      warnings: The findings before the start.
      remarks: Sentences about an attachment that a person should read.
      client_file: The file of ipyparallel's connection info for clients.
      turn_file: The lock file of kernels that share the engines; empty: one in the folder.
    """

    session: str
    asked: Plan
    plan: Plan
    folder: str
    agents: Agents
    began: float
    preflight: Preflight | None = None
    rendezvous: Rendezvous = field(default_factory=lambda: Rendezvous(coordinator="", tasks={}))
    client: Any = None
    engines: dict[int, int] = field(default_factory=dict)
    idents: dict[int, bytes] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)
    answers: Mapping[int, Initialized] = field(default_factory=dict)
    connected: int = 0
    info: Mapping[str, HostInfo] = field(default_factory=dict)
    warnings: Sequence[Finding] = ()
    remarks: Sequence[str] = ()
    client_file: str = ""
    turn_file: str = ""

    @property
    def own_agents(self) -> AgentPool:
        """The agents that this kernel, or one before it, has started.

        Raises:
          SessionError: Somebody else has started the engines.
        """
        if not isinstance(self.agents, AgentPool):
            raise SessionError(
                "The engines of this session were not started by nbdist: this cannot be done from here."
            )
        return self.agents

    def planned(self, processes: Sequence[PlannedProcess]) -> list[NewProcess]:
        """Return what their agents need in order to start these processes."""
        framework = framework_named(self.plan.framework)
        one_host = {ONE_HOST: "1"} if len(set(self.plan.hosts.values())) == 1 else {}
        return [
            NewProcess(
                process_id=process.process_id,
                environment={
                    **framework.environment(self.plan, process, self.rendezvous),
                    **one_host,
                    "NBDIST_PROCESS_ID": str(process.process_id),
                },
            )
            for process in processes
        ]

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop all facts about processes that are about to be started again."""
        for process_id in process_ids:
            for known in (self.engines, self.idents, self.pids):
                known.pop(process_id, None)
        self.agents.forget(process_ids)

    @property
    def connection(self) -> dict[str, Any]:
        """ipyparallel's connection info for clients."""
        return json.loads(Path(self.client_file).read_text())  # type: ignore[no-any-return]

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """How ended processes ended, or why processes can no longer be reached."""
        return self.agents.exits

    def leave(self) -> None:
        """Let all processes go on without this kernel; remove nothing."""
        if self.client is not None:
            self.client.close()
        self.agents.leave()

    def stop(self) -> None:
        """Stop everything that was started here, and remove the session's folder; do nothing a second time.

        Raises:
          KeyboardInterrupt: The user's; everything is stopped nevertheless.
        """
        to_the_end(self._stop)

    def _stop(self) -> None:
        if self.preflight is not None:
            self.preflight.close()
        if self.client is not None:
            self.client.close()
        self.agents.stop()
        folders.remove(self.folder)


def to_the_end(call: Callable[[], None]) -> None:
    """Run `call` on a thread, which no signal reaches: an interrupt ends the wait, not the call.

    The interpreter waits for that thread before it ends. If no thread can be started any more (at the end of a
    program), the call runs here.

    Raises:
      KeyboardInterrupt: The user's; the call goes on.
    """
    errors: list[Exception] = []

    def called() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised again where it was called
            errors.append(error)

    context = contextvars.copy_context()  # error texts use the syntax of the person's interface
    thread = threading.Thread(target=context.run, args=(called,), name="nbdist to the end")
    try:
        thread.start()
    except RuntimeError:  # "can't create new thread at interpreter shutdown"
        call()
        return
    thread.join()
    if errors:
        raise errors[0]
