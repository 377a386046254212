"""`NewStrategy`: with TensorFlow lost processes are replaced, and the others keep their variables."""

from __future__ import annotations

import time

from nbdist.errors import SessionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress
from nbdist.launch.start.replace import end, meet_again, rebuild_strategy, replace
from nbdist.notation import count_text, processes_text, seconds_text
from nbdist.session.cells.context import Remedies
from nbdist.session.cells.facts import ELSEWHERE
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.recovery import Say, Settled
from nbdist.session.recovery.remedies import always
from nbdist.session.recovery.waiting import NOT_OURS, not_back, refuse_busy
from nbdist.spelling import command, option, sentence


class NoRecovery:
    """Recovery of processes that only a restart brings in step again, such as a single one.

    Args:
      engines: The processes.
    """

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines

    def prove(self, *, repair: bool, say: Say) -> Settled:
        """Return what is known from the last cell: nothing that these processes send is compared."""
        return Settled(why=self._engines.facts.why)

    def free(self) -> Remedies:
        """Return the remedies that need no proof."""
        return always(self._engines)

    def restore(self, *, progress: StartProgress) -> str:
        """Refuse.

        Raises:
          SessionError: Always; says why.
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
        """Raise before any is ended that nobody here could start again."""
        if not self._engines.cluster.agents.all:
            raise SessionError(f"T{NOT_OURS[1:]}. {sentence(ELSEWHERE)}")


class NewStrategy(NoRecovery):
    """Recovery of processes that compute with TensorFlow."""

    def restore(self, *, progress: StartProgress) -> str:
        """Replace lost workers, and make the framework's strategy anew on all; see `Recovery.restore`.

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
        refuse_busy(engines, hopeless)
        if hopeless:
            end(engines.cluster, hopeless)
        gone = hopeless | set(engines.facts.lost)
        # The workers of a lost evaluator are as good as before, and their models stay of use.
        workers = (
            engines.facts.out_of_step or not gone or not engines.facts.workers.isdisjoint(gone)
        )
        progress("joined", 0, len(engines.plan.workers) if workers else len(gone))
        if workers:
            meet_again(engines.cluster)
        if gone:
            replace(engines.cluster, gone, progress=progress)
        rebuild_strategy(engines.cluster, gone, workers=workers, progress=progress)
        engines.health.recovered()
        kept = sorted(engines.plan.hosts.keys() - gone)
        parts = []
        if workers:
            count = count_text(len(engines.plan.workers), "worker")
            parts.append(f"new strategy on {count}: create your models again under it")
        if gone:
            parts.append(f"{processes_text(gone)} started again, their variables are lost")
        if kept:
            parts.append(f"{processes_text(kept)} kept their variables")
        return f"{'; '.join(parts)}; {seconds_text(time.monotonic() - started)}"
