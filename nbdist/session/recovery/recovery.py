"""`SessionRecovery`: how the processes of a session are kept in step, or replaced, for each kind of framework.

The base class is for processes that only a restart brings in step; `NewStrategy` is for TensorFlow, and `InPlace`
in `in_place.py` for JAX and Keras.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nbdist.contract.cells import Doubt
from nbdist.errors import SessionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress
from nbdist.launch.start.replace import (
    end_processes,
    meet_again,
    rebuild_strategy,
    replace_processes,
)
from nbdist.notation import capital, count_text, processes_text, seconds_text
from nbdist.notice import Notice
from nbdist.session.cells.facts import ELSEWHERE
from nbdist.session.cells.supervisor import Remedies
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.remedies import basic_remedies
from nbdist.session.recovery.waiting import NOT_OURS, not_back, refuse_unfinished
from nbdist.spelling import command, option, sentence

Say = Callable[[str], None]
"""Called with lines of text while something takes long."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a proof or repair: the processes are in step unless `why` says why not.

    Attributes:
      why: Why they are not in step.
      because: Why they were not in step when the proof or repair began.
      mixed: Whether programs that did not belong together may have computed together, so that numbers were wrong.
      done: What was done, and what is not as before; None if nothing was done.
      unsure: Names whose values on new processes may differ from those on the ended ones, each with the reason.
      older: Names of arrays that were rolled back to their copies, each with the cell of these copies.
    """

    why: str | None = None
    because: str | None = None
    mixed: bool = False
    done: Notice | None = None
    unsure: Mapping[str, Doubt] = field(default_factory=dict)
    older: Mapping[str, Doubt] = field(default_factory=dict)

    @property
    def lost(self) -> tuple[str, ...]:
        """The paths of arrays that were lost."""
        return () if self.done is None else self.done.lost


class SessionRecovery:
    """Recovery of processes that only a restart brings in step again, such as a single one.

    Args:
      engines: The processes.
    """

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines

    def prove(self, *, repair: bool, say: Say) -> Settled:
        """Prove that all are in step after a cell, or repair them.

        The base class compares nothing, and returns what is known from the last cell.

        Args:
          repair: Whether they may be repaired.
          say: Called with lines while it lasts.
        """
        return Settled(why=self._engines.facts.why)

    def free(self) -> Remedies:
        """Return the means, besides an interrupt, for processes that do not leave a cell."""
        return basic_remedies(self._engines)

    def restore(self, *, progress: StartProgress) -> Notice:
        """Bring all in step because a person asks for it, and start others in place of ended ones.

        Returns:
          What was done, and what is not as before.

        Raises:
          NbdistError: It is not possible (in the base class always), or failed; the session stays as it is.
        """
        engines = self._engines
        framework = framework_named(engines.plan.framework)
        self._refuse_not_ours()
        why = (
            "there is only one, or they were not joined when they were started"
            if framework.recovery == "in place"
            else f"nbdist has no repair for {framework.title}"
        )
        raise SessionError(
            f"The processes of this session ({framework.name}) cannot be repaired in place: {why}. "
            f"{command('restart')} starts it afresh."
        )

    def _refuse_not_ours(self) -> None:
        """Refuse processes that somebody else has started, before any is ended: nobody here can start it again."""
        if not self._engines.cluster.agents.all:
            raise SessionError(f"{NOT_OURS.capitalize()}. {sentence(ELSEWHERE)}")


class NewStrategy(SessionRecovery):
    """Recovery with TensorFlow: lost processes are replaced, and the others keep their variables."""

    def restore(self, *, progress: StartProgress) -> Notice:
        """Replace lost processes, and create the framework's strategy anew; see `SessionRecovery.restore`.

        Stuck processes are interrupted once more; those that do not come back are ended and replaced as well.

        Raises:
          SessionError: A process is in the middle of a cell, or somebody else has started them.
          LaunchError: It did not succeed; the session stays out of step.
        """
        engines = self._engines
        self._refuse_not_ours()
        if not engines.plan.initialize:
            raise SessionError(
                f"This session was started with {option('initialize', False)}: you make its strategy yourself."
            )
        started = time.monotonic()
        hopeless = not_back(
            engines,
            say=lambda text: progress(text, 0, len(engines.facts.workers)),
            interrupted=True,
        )
        refuse_unfinished(engines, hopeless)
        if hopeless:
            end_processes(engines.cluster, hopeless)
        gone = hopeless | set(engines.facts.lost)
        # If only an evaluator was lost, the workers and their models need no new strategy.
        workers = (
            engines.facts.out_of_step or not gone or not engines.facts.workers.isdisjoint(gone)
        )
        progress("joined", 0, len(engines.plan.workers) if workers else len(gone))
        if workers:
            meet_again(engines.cluster)
        if gone:
            replace_processes(engines.cluster, gone, progress=progress)
        rebuild_strategy(engines.cluster, gone, workers=workers, progress=progress)
        engines.health.recovered()
        kept = sorted(engines.plan.hosts.keys() - gone)
        was = "was replaced" if len(gone) == 1 else "were replaced"
        done = [f"{processes_text(gone)} {was}"] if gone else []
        if workers:
            done.append(f"the strategy is new on {count_text(len(engines.plan.workers), 'worker')}")
        seconds = seconds_text(time.monotonic() - started)
        means = [f"The variables of {processes_text(gone)} are lost."] if gone else []
        if kept:
            means.append(f"{capital(processes_text(kept))} kept their variables.")
        return Notice(
            level="warn",
            title=f"{capital(' and '.join(done))} in {seconds}.",
            text=" ".join(means),
            do="Create your models again under the new strategy." if workers else "",
            code="repaired",
        )
