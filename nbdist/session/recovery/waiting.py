"""Waits for what ends by itself: compilations, running programs, cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nbdist.contract.asides import Free
from nbdist.contract.calls.stepping import AskUnderWay, Trail
from nbdist.contract.page import SILENT_SECONDS
from nbdist.errors import SessionError
from nbdist.notation import processes_text
from nbdist.session.asking import ANSWER_SECONDS, ask_all
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import common_serial
from nbdist.spelling import command

NOT_OURS = "this kernel has not started these processes, and cannot repair them"

LOOK_SECONDS = 0.05
"""How often to look whether the wait is over."""

FREE_SECONDS = 1.0
"""How often to cut collectives of processes that have finished compiling and wait in one."""

REPORT_SECONDS = 1.0
"""Seconds a process may take to report that it compiles, or that it has left its cell."""

BACK_SECONDS = 5.0
"""Seconds a stuck process may take to come back after one more interrupt, or after its compilation."""

SAY_SECONDS = 1.0
"""Seconds until the wait for compiling processes is shown."""


def not_back(
    engines: EngineGroup,
    *,
    say: Callable[[str], None],
    interrupted: bool = False,
    until: float | None = None,
) -> set[int]:
    """Wait for stuck processes that compile, and a moment for other stuck ones; return those that are not back.

    Python handles no signal while XLA compiles, which takes minutes for a large model, so the interrupt takes
    effect only then. The compiled program may run first, and wait for data that the others never send. Therefore
    the collectives of stuck processes that do not compile are cut repeatedly.

    Args:
      engines: The processes, some of which may be stuck.
      say: Called with one line if the wait takes longer.
      interrupted: Whether to interrupt the stuck ones once more, and to wait for compiling processes even if
        another does not come back.
      until: When to stop waiting for compiling processes (monotonic clock); None: when they have compiled.

    Raises:
      TimeoutError: Some processes were not back at `until`.
      KeyboardInterrupt: The person no longer waits; nothing has changed.
    """
    left = _stuck(engines)
    if left and interrupted:
        engines.interrupt(sorted(left))
    began = freed = time.monotonic()
    within_s = BACK_SECONDS if interrupted else REPORT_SECONDS
    given_up = dict.fromkeys(left, began + within_s)
    said = False
    while left := _stuck(engines):
        now = time.monotonic()
        compiling = {p for p in left if _compiles(engines, p)}
        given_up.update(dict.fromkeys(compiling, now + BACK_SECONDS))
        hopeless = {p for p in left if now >= given_up.setdefault(p, now + within_s)}
        # `interrupted` is set when a person asks for a recovery, which ends the returned processes.
        if hopeless and (hopeless == left or not interrupted):
            return left
        if until is not None and now > until:
            raise TimeoutError(f"{processes_text(left)} still compiling what was interrupted.")
        if left - compiling and now - freed >= FREE_SECONDS:
            freed = now
            engines.cluster.agents.ask(Free(), sorted(left - compiling))
        if compiling and not said and now - began >= SAY_SECONDS:
            said = True
            say(
                f"{processes_text(compiling)} still compiling what was interrupted, and waited for; an interrupt "
                "ends the wait and changes nothing"
            )
        time.sleep(LOOK_SECONDS)
    return set()


def _stuck(engines: EngineGroup) -> set[int]:
    """Return the living stuck processes that are not back yet."""
    engines.health.notice_returned()
    return set(engines.facts.stuck - engines.facts.lost.keys())


def _compiles(engines: EngineGroup, process_id: int) -> bool:
    activity = engines.monitor.activity(process_id)
    reports = engines.monitor.silence(process_id) < SILENT_SECONDS
    return reports and activity is not None and activity.state == "compiling"


States = Mapping[int, Trail]
"""The programs that each process reports to have sent, by process id."""

STILL_SECONDS = 1.0
"""Seconds without progress after which processes count as waiting in vain."""

LIMIT_SECONDS = 300.0
"""The longest wait for programs that all processes have sent."""

SAY_UNDER_WAY_SECONDS = 2.0
"""Seconds until the wait for such programs is shown."""


def until_computed(engines: EngineGroup, states: States, *, say: Callable[[str], None]) -> None:
    """Wait until the programs that all processes have sent are computed, as long as this makes progress.

    Before that, a cut would lose their results, and a proof could not pass. An interrupt ends the wait.

    Args:
      engines: Processes of which none is in a cell.
      states: What each process has just reported to have sent.
      say: Called with a line if the wait takes longer.

    Raises:
      RecoveryError: A process did not answer.
    """
    common = common_serial(states.values())
    # If all have reported that none of these programs is left, there is no need to ask again.
    if not any(_is_left(state, common) for state in states.values()):
        return
    began = moved = time.monotonic()
    before: dict[int, tuple[int, int]] = {}
    said = False
    while not engines.hurry.is_set():
        answers = ask_all(engines, AskUnderWay(common=common), within_s=ANSWER_SECONDS, of=states)
        waiting = sorted(p for p, answer in answers.items() if answer.arrays)
        now = time.monotonic()
        progress = {p: answer.progress for p, answer in answers.items()}
        if progress != before:
            before, moved = progress, now
        if not waiting or now - moved > STILL_SECONDS or now - began > LIMIT_SECONDS:
            return
        if not said and now - began > SAY_UNDER_WAY_SECONDS:
            said = True
            verb = "computes" if len(waiting) == 1 else "compute"
            who = f"{processes_text(waiting)} still {verb} what all have sent"
            say(f"{who}; waiting for it (an interrupt ends the wait)")
        engines.hurry.wait(LOOK_SECONDS)


def _is_left(state: Trail, common: int) -> bool:
    return state.earliest is not None and state.earliest <= common


IDLE_SECONDS = 3.0
"""Seconds a process that has left its cell may take to report it."""


def refuse_unfinished(engines: EngineGroup, hopeless: set[int]) -> None:
    """Raise if a worker is in a cell, except those in `hopeless`.

    Raises:
      SessionError: A worker is; the text says in which cell.
    """
    others = engines.facts.workers - set(engines.facts.lost) - hopeless
    # A report from before the end of a cell may arrive after that end, so reports have some time to change.
    deadline = time.monotonic() + IDLE_SECONDS
    while busy := {p for p in others if not _idle(engines, p)}:
        if time.monotonic() >= deadline:
            break
        time.sleep(LOOK_SECONDS)
    if busy:
        activity = engines.monitor.activity(min(busy))
        cell = f"cell {activity.cell}" if activity and activity.cell is not None else "a cell"
        raise SessionError(
            f"{processes_text(busy)} still in {cell}; interrupt it first, or wait for its end with "
            f"{command('sync')}."
        )


def _idle(engines: EngineGroup, process_id: int) -> bool:
    activity = engines.monitor.activity(process_id)
    return activity is None or activity.state == "idle"
