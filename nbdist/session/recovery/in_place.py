"""`InPlace`: after a cell that did not end alike on all, processes prove that they are in step, or are repaired.

The programs that they have sent are compared first, which needs no collective. If these differ, a proof would pair
with pending collectives and mix up values, so that only a repair helps.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from msgspec import structs

from nbdist.contract.asides import Free
from nbdist.contract.calls.stepping import (
    AskLabels,
    AskSent,
    AskVersions,
    Forget,
    Labels,
    Prove,
)
from nbdist.errors import GoneError, NbdistError, Notice, RecoveryError
from nbdist.launch.model.happenings import ProcessExit, StartProgress
from nbdist.launch.start.pool import LOST_SECONDS
from nbdist.notation import capital, names_text, processes_text, seconds_text, where_text
from nbdist.session.asking import ANSWER_SECONDS, LOOK_SECONDS, ask_all, awaited_hosts
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.supervisor import Remedies
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import (
    Mixed,
    crossed,
    differing,
    differing_labels,
    differing_parts,
    disagreeing,
    newest,
    programs_since,
    which_differ,
)
from nbdist.session.recovery.consequences import Consequences
from nbdist.session.recovery.recovery import (
    Say,
    SessionRecovery,
    Settled,
    basic_remedies,
    join_proof,
    waits_in_vain,
)
from nbdist.session.recovery.repair import CONTROLLER_ENDED, bring_back, repair
from nbdist.session.recovery.replacing import name_lost, replaceable, roll_back
from nbdist.session.recovery.waiting import (
    NOT_OURS,
    States,
    not_back,
    refuse_unfinished,
    until_computed,
)
from nbdist.session.values.flow import HOW_SECONDS
from nbdist.spelling import command

SAY_SECONDS = 1.0
"""Seconds until the wait for a silent host is shown."""

SLACK_SECONDS = 5.0
"""Seconds after `LOST_SECONDS` until it is known that a silent host has been given up."""


def wait_for_silent_hosts(engines: EngineGroup, *, say: Say) -> None:
    """Wait until no host is silent; an interrupt ends the wait.

    Which processes are left is known only when each silent host has answered or is given up.

    Args:
      engines: The processes.
      say: Called with one line when the wait takes longer.
    """
    began = time.monotonic()
    said = False
    while hosts := awaited_hosts(engines):
        waited = time.monotonic() - began
        if waited >= LOST_SECONDS + SLACK_SECONDS:
            return
        if waited >= SAY_SECONDS and not said:
            said = True
            say(
                f"host {names_text(sorted(hosts))} does not answer: waited for until it does, or "
                f"is given up after {seconds_text(LOST_SECONDS)} of silence"
            )
        time.sleep(LOOK_SECONDS)


PROVE_SECONDS = 10.0
"""How long a proof of all processes may take; it takes milliseconds."""


TRIES = 3
"""How often a repair may begin; it begins again, with one more process to replace, if a process ends during it."""


IN_STEP = Notice(
    level="warn",
    title="The processes are in step, as a check has just shown.",
    text="Nothing was changed.",
    code="in step",
)

SERVICE_ENDED = "JAX's coordination service has ended"


class InPlace(SessionRecovery):
    """Recovery of processes that compute with JAX, and can prove that they are in step; repairs them in place."""

    def free(self) -> Remedies:
        """Return the means that end collectives of processes, or let them pass because all others take part."""
        engines = self._engines
        return replace(
            basic_remedies(engines),
            join=partial(join_proof, engines),
            in_vain=partial(waits_in_vain, engines),
            free=partial(engines.cluster.agents.ask, Free()),
        )

    def prove(self, *, automatic: bool, say: Say) -> Settled:
        """Prove that all processes are in step, or repair them; see `SessionRecovery.prove`.

        No process is in a cell any more, except the stuck ones.
        """
        engines = self._engines
        if engines.lost_controller and not automatic:
            return Settled(why=CONTROLLER_ENDED)
        wait_for_silent_hosts(engines, say=say)
        why = bring_back(engines, say=say)
        gone = replaceable(engines)
        why = why or hindrance(engines, gone)
        if why is not None:
            return Settled(why=why)
        service = engines.lost_service
        if gone or service is not None:
            why = gone_text(engines, gone) if gone else SERVICE_ENDED
            if service is not None and automatic:
                say(f"JAX's coordination service {service}")
            return (
                replace(try_repair(engines, say=say), because=why)
                if automatic
                else Settled(why=why)
            )
        states: States | None = None
        mixed = differ = True
        try:
            said, why = _compared(engines, say=say)
            if why is not None:
                states = said  # asked now, since a proof that fails would change them
                mixed = crossed(said.values())
            else:
                why = _prove_once_computed(engines, said, say=say)
            if why is None:
                return _without_mixed_arrays(engines)
        except NbdistError as error:
            why, mixed, differ = _reason(error), False, False
        done = try_repair(engines, say=say, states=states) if automatic else Settled(why=why)
        return replace(done, because=why, mixed=mixed, differ=differ)

    def restore(self, *, progress: StartProgress) -> Notice:
        """Repair all processes if they are not in step; see `SessionRecovery.restore`.

        Processes that this kernel has not started cannot be repaired from here, but the kernel that started them
        may have repaired them.

        Raises:
          SessionError: A process is in the middle of a cell.
          RecoveryError: It did not succeed.
        """
        engines = self._engines

        def say(text: str) -> None:
            progress(text, 0, len(engines.facts.workers))

        if not engines.cluster.agents.all:
            return self._proven(say)
        stuck = not_back(engines, say=say, interrupted=True)
        refuse_unfinished(engines, stuck)
        if (
            not engines.facts.out_of_step
            and engines.exclusive(lambda: why_out_of_step(engines, say=say)) is None
        ):
            return IN_STEP
        said: list[str] = []
        settled = engines.exclusive(lambda: try_repair(engines, say=said.append, stuck=stuck))
        learn(engines, settled, engines.facts.last_cell)
        if settled.why is not None:
            raise not_recovered(engines, settled.why, said)
        done = settled.done or IN_STEP
        return replace(done, details=(*said, *done.details))

    def _proven(self, say: Say) -> Notice:
        engines = self._engines
        why = hindrance(engines)
        if why is None:
            refuse_unfinished(engines, set())
            settled = engines.exclusive(lambda: self.prove(automatic=False, say=say))
            learn(engines, settled, engines.facts.last_cell)
            if settled.why is None:
                return settled.done or IN_STEP
            why = settled.why
        gone = engines.facts.workers.intersection(engines.facts.lost)
        # Replacements in nbdist's own sessions are recorded; those in another cluster are found by attaching
        # again.
        again = f"Then leave them, with {command('shutdown')}, and attach again."
        error = not_recovered(engines, f"{why}, and {NOT_OURS}")
        then = [again] if gone and engines.cluster.turn_file else []
        notice = replace(error.notice, do=" ".join([error.notice.do, *then]))
        raise RecoveryError(notice)


def not_recovered(engines: EngineGroup, why: str, said: Collection[str] = ()) -> RecoveryError:
    """Return the error for processes that are still out of step; `said` was said while that was tried."""
    return RecoveryError(
        Notice(
            level="bad",
            title=capital(f"{why}."),
            text="The session is out of step; what the processes hold is unchanged.",
            do=engines.facts.remedy,
            details=tuple(said),
            code="out of step",
        )
    )


def _reason(error: NbdistError) -> str:
    """Return an error as part of a sentence; those of XLA have several lines."""
    return " ".join(str(error).split()).rstrip(".")


def learn(engines: EngineGroup, settled: Settled, cell: int) -> ProcessFacts:
    """Note the result of a proof or repair; return the new facts."""
    if settled.why is not None:
        engines.health.note(ProcessFacts.found_out_of_step, cell, settled.why)
    else:
        engines.health.recovered(settled.done, unsure=settled.unsure)
    return engines.facts


def try_repair(
    engines: EngineGroup,
    *,
    say: Say,
    states: States | None = None,
    stuck: Collection[int] = (),
) -> Settled:
    """Repair all processes in place, whether or not they are in step.

    Results from the first program on that not all have sent are lost. If a process ends during a repair, the
    repair begins again and replaces that process as well.

    Args:
      engines: Processes of which none is in a cell.
      say: Called with lines while it lasts.
      states: What the processes have reported to have sent, if still valid; None: they are asked.
      stuck: Processes that are to be ended and replaced, since they no longer answer.
    """
    for tries_left in reversed(range(TRIES)):
        wait_for_silent_hosts(engines, say=say)
        why = bring_back(engines, say=say)
        gone = replaceable(engines, stuck)
        why = why or hindrance(engines, gone)
        if why is None and not engines.cluster.agents.all:
            why = NOT_OURS
        if why is not None:
            return Settled(why=why)
        ended = dict(engines.cluster.exits)
        try:
            with engines.health.repairing():
                done = repair(
                    engines, number=engines.next_number(), say=say, states=states, gone=gone
                )
        except NbdistError as error:
            why = _reason(error)
            if not tries_left or not _another_has_ended(engines, ended, error):
                return Settled(why=f"the repair failed: {why}")
            say(f"the repair begins again: {why}")
            engines.health.note(ProcessFacts.ended, engines.cluster.exits)
            states = None
        else:
            return Settled(done=done.done, unsure=done.unsure, older=done.older)
    raise AssertionError("every last try returns")


def _another_has_ended(
    engines: EngineGroup, before: Mapping[int, ProcessExit], error: NbdistError
) -> bool:
    """Return whether another process or the service has ended; wait for the news if a process is out of reach."""
    unreachable = isinstance(error, GoneError) or isinstance(error.__cause__, GoneError)
    until = time.monotonic() + (HOW_SECONDS if unreachable else 0.0)
    while all(
        end == before.get(p) or p not in engines.facts.workers
        for p, end in engines.cluster.exits.items()
    ) and (engines.lost_service is None):
        if time.monotonic() >= until:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def gone_text(engines: EngineGroup, gone: Collection[int]) -> str:
    """Return `process 2 (host h3) is gone` for ended processes."""
    return f"{where_text(gone, engines.plan.hosts)} {'is' if len(gone) == 1 else 'are'} gone"


def hindrance(engines: EngineGroup, replaced: Collection[int] = ()) -> str | None:
    """Return what prevents a proof and a repair, once `replaced` are replaced; None if nothing does."""
    engines.health.notice_returned()
    facts = engines.facts
    if facts.cut_off and facts.why is not None:
        return facts.why
    gone = facts.workers.intersection(facts.lost) - set(replaced)
    if gone:
        return gone_text(engines, gone)
    stuck = facts.workers & facts.stuck - set(replaced)
    if stuck:
        return f"{processes_text(stuck)} did not stop when interrupted"
    if facts.silent:
        return f"host {names_text(facts.silent)} does not answer"
    return None


def why_out_of_step(engines: EngineGroup, *, say: Say) -> str | None:
    """Return why the processes are not in step; None if a proof has just passed.

    Args:
      engines: Processes of which none is in a cell.
      say: Called with a line if it takes longer.

    Raises:
      RecoveryError: A process did not answer, although it has not ended.
    """
    before = dict(engines.cluster.exits)
    try:
        states, why = _compared(engines, say=say)
        return why if why is not None else _prove_once_computed(engines, states, say=say)
    except RecoveryError as error:
        if not _another_has_ended(engines, before, error):
            raise
        # The process has just ended, and is replaced like any other.
        engines.health.note(ProcessFacts.ended, engines.cluster.exits)
        return str(error)


def _compared(engines: EngineGroup, *, say: Say) -> tuple[States, str | None]:
    """Return what the processes have sent, and why they cannot be in step then; None if they may be in step."""
    states = ask_all(
        engines,
        AskSent(),
        within_s=ANSWER_SECONDS,
        meanwhile=lambda missing: wait_for_silent_hosts(engines, say=say),
    )
    sent = {p: programs_since(state.sent, engines.in_step_at) for p, state in states.items()}
    why = differing(
        {p: structs.replace(state.sent, programs=sent[p]) for p, state in states.items()}
    )
    if why is not None:
        return states, why + which_differ(_labels(engines, sent))
    if len({(state.sent.names, state.sent.kinds) for state in states.values()}) > 1:
        why = differing_labels(_labels(engines, sent))
    return states, why or differing_parts(states)


def _prove_once_computed(engines: EngineGroup, states: States, *, say: Say) -> str | None:
    """Return what `prove_now` returns, once everything that was sent is computed."""
    until_computed(engines, states, say=say)
    return prove_now(engines)


def _labels(engines: EngineGroup, sent: Mapping[int, int]) -> dict[int, Labels]:
    """Return each process's labels of its newest programs, as many as it has `sent`."""
    answers = ask_all(engines, AskLabels(), within_s=ANSWER_SECONDS)
    return {p: newest(one, sent[p]) for p, one in answers.items()}


def prove_now(engines: EngineGroup) -> str | None:
    """Make all processes take part in a proof; return why it did not pass, or None."""
    answers = ask_all(
        engines,
        Prove(number=engines.next_number(), timeout_s=PROVE_SECONDS, compared=True),
        within_s=PROVE_SECONDS + ANSWER_SECONDS,
    )
    passed = all(answer.passed and answer.alike for answer in answers.values())
    return None if passed else "the collectives of the processes do not match"


def _without_mixed_arrays(engines: EngineGroup) -> Settled:
    """Delete arrays whose pieces do not belong together, so that none gives wrong numbers; return the result."""
    mixed = disagreeing(ask_all(engines, AskVersions(), within_s=ANSWER_SECONDS))
    if mixed == Mixed():
        return Settled()
    answers = ask_all(
        engines, Forget(paths=mixed.paths, unnamed=mixed.unnamed), within_s=ANSWER_SECONDS
    )
    lost = {*mixed.paths, *(name for a in answers.values() for name in a.lost)}
    returned = roll_back(engines, lost)
    still = tuple(sorted(lost - returned.paths))
    if not lost:
        return Settled()
    means = Consequences(lost=still, returned=returned)
    name_lost(engines, means)
    done = means.notice("The processes are in step.", code="lost", made_in=engines.made_in)
    return Settled(done=done, older=returned.names)
