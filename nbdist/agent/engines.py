"""The engines of an agent: forks of this process, which has imported what they need, or fresh interpreters."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nbdist.agent.children import Children
from nbdist.agent.sync import FOLDER, put_on_path
from nbdist.contract.orders import Assignment, NewProcess


def start_engines(
    children: Children,
    wanted: Iterable[NewProcess],
    assignment: Assignment,
    *,
    folder: str,
    let_go: Callable[[], None],
) -> None:
    """Start engines; each reports by itself that it is there.

    Args:
      children: The agent's.
      wanted: The processes.
      assignment: The agent's assignment.
      folder: The session's private folder here.
      let_go: Called in a child: closes what only the agent uses.
    """

    def become(environment: Mapping[str, str]) -> None:
        """Run the engine in the child."""
        let_go()
        put_on_path([str(Path(folder, FOLDER, path)) for path in assignment.paths])
        run = _fork if assignment.fork else _spawn
        run(folder, assignment.cluster_id, environment)

    for process in wanted:
        log = Path(folder) / f"process-{process.process_id}.log"
        asked = os.pipe()
        os.set_inheritable(asked[0], True)
        own = {"NBDIST_LOG": str(log), "NBDIST_ASKED": str(asked[0])}
        environment = {**process.environment, **own}
        children.start(
            process.process_id,
            log,
            lambda environment=environment: become(environment),  # type: ignore[misc]
            death_signal=signal.SIGKILL,
            asked=asked,
        )


def _fork(folder: str, cluster_id: str, environment: Mapping[str, str]) -> None:
    from nbdist.engine.kernel.process import run_engine

    os.environ.update(environment)
    run_engine(folder, cluster_id, fork_nanny=True)


def _spawn(folder: str, cluster_id: str, environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "nbdist.engine.kernel.process", folder, cluster_id]
    os.execve(sys.executable, command, {**os.environ, **environment})
