"""The way to one agent: the command that starts it, and whose host it is on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.launch.agents.watch import Watch
from nbdist.launch.model.host_list import AskedHost
from nbdist.launch.model.ssh import SshOptions

LOCAL_COMMAND = (sys.executable, "-m", "nbdist.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """How an agent is started, and what its end means.

    `name` is the host's, as shown; `environment` is that of `command`, None: this kernel's own. `remote` says that
    the agent's folder and processes are on another machine; `host` and `options` say which machine it is and how
    ssh leads there, None for a job of a scheduler. `watch` reads what the scheduler says about the job.
    """

    name: str
    command: tuple[str, ...] = LOCAL_COMMAND
    environment: Mapping[str, str] | None = None
    remote: bool = False
    host: AskedHost | None = None
    options: SshOptions | None = None
    watch: Watch | None = None
