"""Processes of a session that end while no cell runs, and what is known of the session then."""

from __future__ import annotations

import os
import signal

from nbdist import Session
from nbdist.contract.events import Coordinating
from nbdist.contract.orders import CONTROLLER
from tests.waiting import wait_for


def pid_of(session: Session, process_id: int) -> int:
    """The pid of a process now."""
    pid = session.snapshot().processes[process_id].pid
    assert pid is not None
    return pid


def pids_of(session: Session) -> list[int]:
    """The pids of all that live, in the order of their numbers."""
    return [p.pid for p in session.snapshot().processes if p.pid is not None]


def kill(session: Session, process_id: int, number: int = signal.SIGKILL) -> None:
    """End a process; return when that is known."""
    os.kill(pid_of(session, process_id), number)
    wait_for(lambda: session.out_of_step)


def kill_controller(session: Session) -> None:
    """End ipyparallel's controller."""
    os.kill(session._life.engines.cluster.own_agents.home.pids[CONTROLLER], signal.SIGKILL)


def kill_service(session: Session) -> None:
    """End JAX's coordination service; later ones have lower numbers."""
    agent = session._life.engines.cluster.agents.of(0)
    os.kill(agent.pids[min(agent.numbers(Coordinating))], signal.SIGKILL)


def without_doubt(session: Session) -> set[str]:
    """Take all names for what they were; return those that were in doubt."""
    health = session._life.engines.health
    doubted = {*health.facts.unsure}
    health.sure_of(doubted)
    return doubted
