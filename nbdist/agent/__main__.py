"""`python -m nbdist.agent`: the signals that end an agent, and how the agent reports its end.

In a job that a scheduler started each task is such an agent, of one process. `--task VARIABLE` names the
environment variable that holds the task's number, which is the process id.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from nbdist.agent.agent import Agent
from nbdist.agent.kernel_link import unread
from nbdist.agent.processes import Children
from nbdist.contract.events import Events, Stopped, Terminated


class _Stopped(SystemExit):
    """A request to end this session that may not come from its kernel."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped(0)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _task(arguments: list[str]) -> int | None:
    """Return the number of this task; None for an agent that is no task."""
    if arguments[:1] != ["--task"]:
        return None
    variable = arguments[1]
    if not os.environ.get(variable, "").isdigit():
        raise SystemExit(f"nbdist: the scheduler has not set {variable}, the number of this task.")
    return int(os.environ[variable])


def main() -> None:
    """Run an agent until its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    # A connection that is cut takes standard output away: this agent ends without an event.
    signal.signal(signal.SIGHUP, _leave)
    task = _task(sys.argv[1:])
    events = Events(os.fdopen(os.dup(1), "w"), task)
    # What libraries print while they are imported must not be taken for an event.
    os.dup2(2, 1)
    agent = Agent(Children(events), events, orders=0, task=task, unread=unread(sys.argv))
    try:
        agent.serve()
    except _Stopped:
        if task is None:
            events.send(Stopped())
            raise
        # A scheduler ends a task in this way, and reports itself why.
        events.send(Terminated())
        raise SystemExit(128 + signal.SIGTERM) from None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        agent.stop()


if __name__ == "__main__":
    main()
