"""`Session`: the one object a user holds. Every magic is one method of it."""

from __future__ import annotations

import atexit
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nbdist.cells.attached_cell import RegainedRun
from nbdist.cells.background import Background, queued_text, stopping_text
from nbdist.cells.cellrun import CellHandle, CellRun
from nbdist.cells.context import Ended
from nbdist.cells.execution import Cell, without_leading_blank_lines
from nbdist.cells.facts import Facts
from nbdist.cells.followed import FollowedRun
from nbdist.cells.history import History, OpenCell, PastCell
from nbdist.cells.history import read as read_history
from nbdist.cells.listed import ListedCell, listed
from nbdist.cells.outcome import first_cause
from nbdist.cells.post_mortem import refuse_busy, refuse_sound
from nbdist.cells.refuse import refuse_computing
from nbdist.cells.stacks import native_text, stacks_text
from nbdist.cells.target_selector import Targets
from nbdist.check import refuse_disagreement
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import ArrayError, NbdistError, SessionError
from nbdist.launch.files.sync import Copied
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.progress import StartProgress, silent
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.attached_cluster import AttachedCluster
from nbdist.launch.start.spawn import Spawned, spawn
from nbdist.output.shown import SHOWN
from nbdist.quantities import processes_text
from nbdist.rules import Rules
from nbdist.session import moving
from nbdist.session.engine_group import EngineGroup
from nbdist.session.keeping import say_kept, say_running, take_up, write_down
from nbdist.session.moving import LARGE_BYTES, Progress
from nbdist.session.recovery.after import after_cell, left_unsettled, make_sure, recover
from nbdist.session.recovery.compared import have_sent_the_same, place_of
from nbdist.session.recovery.context import cell_context
from nbdist.session.recovery.expression import Answers, ask_all_workers, ask_some, is_name
from nbdist.session.recovery.widget import deliver
from nbdist.view.feed import Feed
from nbdist.view.layout import Layout
from nbdist.view.picture import Picture
from nbdist.view.shards import Shards
from nbdist.view.text import nan_text, status_text
from nbdist.view.values import shown_values
from nbdist.widgets import Event

REPORTED_SECONDS = 2.0
"""How long something new may take to be reported; processes look at least once a second."""

ANSWER_SECONDS = 30.0
"""How long an idle process may take to answer a small request."""

LOOK_SECONDS = 5.0
"""How long processes may take to look at the values of an array."""

PULL_SECONDS = 120.0
"""How long processes may take to send a value."""

SETTLE_SECONDS = 0.005
"""How often is looked whether the end of a cell on a thread has been seen to."""

MAX_PICTURES = 8
"""The stills of the newest views are kept up to date; older ones stay as they are."""


class Session:
    """Processes that run cells together; also a context manager that ends them.

    Made by `nbdist.start` or `nbdist.attach`. All methods may be called from the thread that runs cells.
    """

    def __init__(
        self,
        source: Spawned | AttachedCluster,
        *,
        rules: Rules,
        progress: StartProgress,
        feed: Feed | None = None,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self._left_out = left_out
        self.feed = feed or Feed()
        self._rules = rules
        self._pictures: list[Picture] = []
        self._engines: EngineGroup | None = None
        if isinstance(source, AttachedCluster):
            self._attach(source, progress)
        else:
            self._asked = source.plan
            self.id = uuid.uuid4().hex[:8]
            self._start(source, progress)

    def _start(self, spawned: Spawned, progress: StartProgress) -> None:
        engines = EngineGroup.begin(
            spawned, session=self.id, progress=progress, publish=self._publish
        )
        self._numbers = itertools.count(1)
        self._history = History(Path(engines.link.folder))
        self._background = Background()
        self._ours = True
        self._take(engines)
        unwritten = self._write_down(engines)
        self._own_remarks = ([unwritten] if unwritten else [say_kept(self.id)]) * self.plan.keep

    def _write_down(self, engines: EngineGroup) -> str | None:
        return write_down(engines, session=self.id, asked=self._asked, rules=self._rules)

    def _attach(self, regained: AttachedCluster, progress: StartProgress) -> None:
        self._asked, self._ours, self.id = regained.asked, regained.ours, regained.session
        folder = Path(regained.link.folder)
        known = read_history(folder)
        engines = EngineGroup.again(
            regained,
            session=self.id,
            progress=progress,
            publish=self._publish,
            since=known.since,
            stuck=known.stuck,
        )
        numbers = [past.number for past in known.past] + [cell.number for cell in known.running]
        self._numbers = itertools.count(1 + max(numbers, default=0))
        self._history = History(folder)
        self._history.cells = known.past
        self._take(engines)
        regained_runs = take_up(
            engines,
            known.running,
            besides=regained.others,
            rules=self._rules,
            ended=self._ended,
        )
        self._background = Background(regained_runs)
        self._own_remarks = [*regained.remarks, *say_running(regained_runs)]
        if engines.proves and not regained_runs and left_unsettled(engines):
            done = make_sure(engines, automatic=self._rules.recover)
            self._own_remarks += [done] if done else []

    def _take(self, engines: EngineGroup) -> None:
        self._engines = engines
        self.feed.on_fault = engines.monitor.fault
        self.feed.values = self.values
        self.feed.outputs = SHOWN.of
        engines.widgets.on_event = self._widget_event
        self.plan = engines.plan
        self._snapshot = engines.monitor.snapshot
        self._described = engines.describe()
        atexit.register(self.leave)

    # -- what is there -------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the session has processes."""
        return self._engines is not None

    @property
    def hosts(self) -> Mapping[int, str]:
        """Host name by process id."""
        return self.plan.hosts

    @property
    def out_of_step(self) -> bool:
        """Whether collectives of different processes may no longer match."""
        return self._alive().facts.out_of_step

    @property
    def kept(self) -> bool:
        """Whether it outlives this kernel: it is to be kept, or somebody else has started it."""
        return self.plan.keep or not self._ours

    @property
    def ours(self) -> bool:
        """Whether `shutdown` stops it; one that somebody else has started is only left."""
        return self._ours

    @property
    def history(self) -> list[PastCell]:
        """The cells that have ended, those of kernels before this one included."""
        return self._history.cells

    @property
    def running(self) -> tuple[CellHandle, ...]:
        """Cells of a kernel before this one that still run."""
        return tuple(CellHandle(run) for run in self._regained)

    @property
    def _regained(self) -> tuple[RegainedRun, ...]:
        return tuple(run for run in self._background.runs if isinstance(run, RegainedRun))

    def cells(self) -> tuple[ListedCell, ...]:
        """The cells that run in the background, and the last that have ended.

        Returns:
          In the order they were sent in.
        """
        return listed(self._background, self.history, now=time.time())

    @property
    def client(self) -> Any:
        """ipyparallel's own client of the engines, for what nbdist does not do."""
        return self._alive().link.client

    def stacks(self, on: Targets = None, *, native: bool = False) -> str:
        """What processes are in the middle of, also while they run a cell: their Python stacks, equal ones once.

        Args:
          on: All threads of these; None: the main threads of all.
          native: Down into C and C++, where py-spy is there and may trace; of all threads.

        Returns:
          Text, as `%dist_stack` prints it.

        Raises:
          TargetError: There is no such process, or it is gone.
          SessionError: Somebody else has started the processes.
        """
        engines = self._alive()
        asked = engines.choice.there(on)
        found = engines.stacks(asked, native=native)
        missing = [p for p in asked if p not in found]
        if native:
            return native_text({p: answer["native"] for p, answer in found.items()}, missing)
        threads = {p: answer["threads"] for p, answer in found.items()}
        return stacks_text(threads, missing, whole=on is not None)

    def snapshot(self) -> Snapshot:
        """What is known of the whole session now.

        Returns:
          Plain data, of a size that grows with devices and arrays; sizes are bytes, times Unix seconds.
        """
        return self._snapshot()

    def status(self) -> str:
        """Where each process is.

        Returns:
          Text of one row a process, as `%dist_status` prints it: state, cell, line, seconds, memory.
        """
        self._look()
        return status_text(self.snapshot())

    def mesh(self, path: str | None = None) -> Picture:
        """The view of this session, and of where one array lies.

        Args:
          path: Of the array, as the view lists it, such as `params['w']`; None: none is chosen.

        Returns:
          A picture that follows the session; `show()` displays it.
        """
        self._look()
        picture = Picture(self.feed, self.snapshot, path=path)
        self._pictures = [*self._pictures[-MAX_PICTURES + 1 :], picture]
        return picture

    def _look(self) -> None:
        if self._engines is None:
            return
        self._engines.look(self._background.busy())

    def _publish(self, snapshot: Snapshot) -> None:
        """Called on the monitor's thread with each new snapshot."""
        self.feed.push(snapshot)
        for picture in self._pictures:
            picture.follow(snapshot)

    def describe(self) -> str:
        """One line: processes, hosts, devices, and how long the start took."""
        return self._described

    @property
    def remarks(self) -> list[str]:
        """What a person must know of this start, a sentence each."""
        left_out = [f"Left out: {text}" for text in self._left_out]
        return [*left_out, *self._alive().remarks, *self._own_remarks]

    # -- cells -----------------------------------------------------------------------------------

    def run(
        self,
        code: str,
        *,
        on: Targets = None,
        timeout_s: float | None = None,
        grace_s: float | None = None,
        wait: bool = True,
        live: bool = False,
        check: bool | None = None,
        cell: int | None = None,
        offset: int = 0,
        renderer: Any = None,
    ) -> CellHandle:
        """Runs code on the processes and shows its output as it comes.

        Args:
          code: What IPython runs as a cell: statements, magics, `!cmd`, top-level `await`.
          on: Target words (`"0,2:4"`, `"[0,1-2]"`, `"host=h1"`) or process ids; default: all.
          timeout_s: Interrupt the cell after so many seconds.
          grace_s: How many seconds other processes may stay in the cell when one has failed.
          wait: Return when the cell has ended; otherwise at once.
          live: Where it is not waited for, show its output all the same, as it comes.
          check: First compare what must be equal on all targets, without a collective; default: as the session
            was started.
          cell: The notebook's execution count; default: counted here.
          offset: Lines of the notebook's cell above `code`.
          renderer: Draws the output; default: the notebook's or the terminal's.

        Returns:
          A handle; `handle.wait()` shows and raises what the cell does.

        Raises:
          ProcessError: The cell failed on some process; carries the first cause.
          CellTimeout: It did not end within `timeout_s`.
          SessionError: The session has ended, or a target is still busy or gone.
          TargetError: `on` names no process.
          AgreementError: The targets differ in what must be equal, or could not be compared; nothing has run.
        """
        engines = self._alive()
        self._wait_for_ends()
        chosen = engines.choice.targets(on)
        if engines.proves and engines.facts.out_of_step:
            refuse_computing(code, engines.facts)
        if self._rules.check if check is None else check:
            self._compare(engines, chosen, code)
        number = cell if cell is not None else next(self._numbers)
        # IPython takes leading blank lines away before it counts.
        code, blank = without_leading_blank_lines(code)
        # One that nobody waits for is seen to its end on a thread: the next cell must find all in step.
        context = cell_context(
            engines,
            chosen,
            rules=self._rules if grace_s is None else replace(self._rules, grace_s=grace_s),
            began=self._begun,
            ended=self._ended,
        )
        run = (CellRun if wait else FollowedRun)(
            Cell(number=number, code=code, offset=offset + blank),
            targets=chosen,
            context=context,
            timeout_s=timeout_s,
            remarks=self._remarks(engines, on, chosen, number, wait=wait),
            renderer=renderer,
        )
        handle = run.begin()
        if isinstance(run, FollowedRun):
            self._background.add(run)
            return run.follow(shown=live)
        return handle.wait()

    def _remarks(
        self, engines: EngineGroup, on: Targets, chosen: Sequence[int], number: int, *, wait: bool
    ) -> list[str]:
        """Lines to show above a cell's output."""
        busy = self._background.busy()
        queued = queued_text({p: busy[p] for p in chosen if p in busy})
        remarks = [*engines.choice.remarks(on, chosen), *([queued] if queued else [])]
        if wait:
            return remarks
        since = time.strftime("%H:%M:%S")
        return [
            f"cell {number} in the background on {processes_text(chosen)}, since {since}",
            *remarks,
        ]

    def _compare(self, engines: EngineGroup, targets: Iterable[int], code: str) -> None:
        refuse_disagreement(
            engines.send,
            [p for p in targets if p in engines.facts.workers],  # nobody computes with an evaluator
            without_leading_blank_lines(code)[0],
            hosts=self.hosts,
            activity=engines.monitor.activity,
            digests=engines.digests,
        )

    def follow(self, cell: int) -> None:
        """Shows the output of a cell in the background until it ends; an interrupt ends this look only.

        Args:
          cell: Its number.

        Raises:
          SessionError: No cell of this number runs in the background.
        """
        self._alive()
        self._background.find(cell).watch()

    def debug(self, on: Targets, *, cell: int | None = None) -> None:
        """Opens the prompt of a debugger on processes.

        Where one waits at a breakpoint in a cell of the background, that cell is followed to its end, and the
        prompts of its processes are answered; an interrupt ends this look only. Else it is a post-mortem: each
        process looks at the frame in which the last cell that has failed there raised.

        Args:
          on: The processes, as in `run`.
          cell: The notebook's execution count; default: counted here.

        Raises:
          SessionError: No cell has failed on one of them, or it is in the middle of one.
          ProcessError: The debugger was left with an error.
        """
        engines = self._alive()
        chosen = engines.choice.targets(on)
        waiting = self._background.at_prompt(chosen)
        if waiting is not None:
            waiting.watch()
            return
        self._wait_for_ends()
        refuse_busy([p for p in chosen if engines.busy(p)])
        refuse_sound(engines.failures(chosen, timeout_s=ANSWER_SECONDS))
        self.run("%debug", on=chosen, check=False, cell=cell)

    def interrupt(self, cell: int | None = None) -> str:
        """Interrupts what runs on all processes; then they are proven to be in step, or brought there.

        Args:
          cell: The number of one cell in the background; None: all that runs.

        Returns:
          One line that says what was interrupted.

        Raises:
          SessionError: `cell` does not run in the background.
        """
        engines = self._alive()
        if cell is not None:
            run = self._background.find(cell)
            inside = run.execution.still_in()
            if not inside:
                return f"cell {cell} has ended"
            run.interrupt()
            return f"interrupted: cell {cell} ({processes_text(inside)})"
        stopped = self._background.interrupt()
        others = [p for p in sorted(self.hosts) if not any(p in ids for ids in stopped.values())]
        # No other: a signal that finds a process between two cells might end the one that comes next.
        busy = [p for p in others if engines.in_cell(p) or p in engines.facts.stuck]
        if busy:
            engines.interrupt(busy)
        said = [f"cell {number} ({processes_text(ids)})" for number, ids in stopped.items()]
        said += [f"what runs on {processes_text(busy)}"] if busy else []
        return f"interrupted: {', '.join(said)}" if said else "no cell is running"

    def stop_at_step(self) -> str:
        """Has all processes leave what runs in the background before the same step; all stay in step.

        A step begins where the cell calls `nbdist.checkpoint()`, and where Keras begins a batch. What never does
        either runs on.

        Returns:
          One line for each cell.

        Raises:
          SessionError: No cell runs in the background, or its processes cannot agree on a step.
        """
        engines = self._alive()
        runs = self._background.inside()
        if not runs:
            raise SessionError("No cell runs in the background that could be stopped.")
        said = []
        for run, inside in runs.items():
            steps = engines.stop_at_step(inside, run.execution.number)
            run.execution.mark([p for p in inside if steps.get(p) is not None], "interrupted")
            said.append(stopping_text(run.cell.number, inside, steps))
        return "\n".join(said)

    def _begun(self, cell: OpenCell) -> None:
        self._alive().monitor.sent(cell.requests, cell.run)
        self._history.begun(cell)

    def _wait_for_ends(self) -> None:
        """Waits for what follows the end of a cell on a thread: that all are in step, or are not."""
        for run in self._background.runs:
            while (run.has_left or run.ending) and not run.done:
                time.sleep(SETTLE_SECONDS)
        engines = self._alive()
        with engines.settling:
            pass
        if engines.proves and engines.computed_alone():
            make_sure(engines, automatic=self._rules.recover)

    def _ended(self, end: Ended) -> Facts:
        """Learns from a cell that has ended, and sees to it that the processes are in step."""
        engines = self._alive()
        ran = any(s.outcome != "not run" for s in end.standings.values())
        facts = engines.learn(end.standings, end.cell.number) if ran else engines.facts
        if ran and engines.proves and not facts.workers.isdisjoint(end.standings):
            if end.clean and have_sent_the_same(end.steps, facts.workers):
                engines.in_step_at = place_of(end.steps) or engines.in_step_at
            else:
                facts = after_cell(engines, end, automatic=self._rules.recover)
        failed = [s for s in end.standings.values() if s.outcome != "finished"]
        cause = first_cause(end.standings.values()) or next(iter(failed), None)
        self._history.ended(
            PastCell(
                number=end.cell.number,
                code=end.cell.code,
                targets=tuple(end.standings),
                started=end.started,
                seconds=time.time() - end.started,
                outcome=cause.outcome if cause is not None else "finished",
            ),
            run=end.number,
            since=facts.since,
            stuck=facts.stuck,
        )
        return facts

    # -- values ----------------------------------------------------------------------------------

    def push(
        self,
        values: Mapping[str, Any],
        *,
        on: Targets = None,
        sharding: str | None = None,
        progress: Progress = moving.silent,
    ) -> None:
        """Puts values of this kernel into the processes' namespaces under these names, on all of them or on none.

        Functions and objects of the notebook's own classes go along with their code. With a sharding, each process
        is sent only its pieces of a NumPy array, and has them as one global `jax.Array`. Arrays of 1 MB and more
        are in memory once on each host, for all its processes; one that writes to its array gets a copy of each
        page that it writes to.

        Args:
          values: By name.
          on: To these processes only; default: all.
          sharding: An expression of the processes, such as `"NamedSharding(mesh, P('x'))"`; each value must be a
            NumPy array.
          progress: Called with the bytes that were sent and their total.

        Raises:
          ArrayError: A value that cannot be pickled, or no array where one is needed; nothing has been sent.
          SpecError: The sharding does not fit an array; nothing has been changed.
          OptionError: `sharding` with `on`.
          SessionError: A process is in a cell, or did not answer in time; nothing has been changed.
          GoneError: A process ended meanwhile.
        """
        engines = self._alive()
        self._wait_for_ends()
        moving.push(
            engines,
            engines.choice.targets(on),
            values,
            sharding=sharding,
            busy=self._background.busy(),
            rules=self._rules,
            progress=progress,
        )

    def pull(
        self,
        expression: str,
        *,
        on: Targets = None,
        each: bool = False,
        limit_bytes: int = LARGE_BYTES,
        confirm: Callable[[str], bool] | None = None,
        timeout_s: float = PULL_SECONDS,
        progress: Progress = moving.silent,
    ) -> Any:
        """Brings one value here: an array, or a container of any depth with all the arrays in it, as NumPy.

        A global array comes whole, each unique piece sent once. What is whole on several processes must be equal
        on all of them: they compare digests. A Flax NNX module comes as its state, a typed PRNG key as its
        key data. What is no array is pickled; this kernel must have its classes. What is more than a name is
        evaluated on all processes at the same time, whatever `on` says, since it may compute.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          on: From these processes only; default: all.
          each: Bring the value of each process, which may differ: a dict by process id.
          limit_bytes: What is larger in whole is refused, or asked about.
          confirm: Asked with a sentence before something larger is sent.
          timeout_s: How many seconds the processes may take to answer.
          progress: Called with the bytes that have come and their total.

        Returns:
          The value, arrays as NumPy in their global shape; with `each` a dict of such values by process id.

        Raises:
          ArrayError: Unknown, deleted, donated, a tracer, too large, not picklable, of a class that is not here,
            or not the same on all processes.
          SessionError: A process is busy, or did not answer in time.
          GoneError: A process ended meanwhile.
        """
        engines = self._alive()
        return moving.pull(
            engines,
            lambda name, ids, **arguments: self._evaluated(
                name, expression, ids, timeout_s=timeout_s, **arguments
            ),
            engines.choice.targets(on),
            expression,
            each=each,
            limit_bytes=limit_bytes,
            confirm=confirm,
            timeout_s=timeout_s,
            progress=progress,
        )

    def shards(self, expression: str, *, timeout_s: float = ANSWER_SECONDS) -> Shards:
        """Where the pieces of one array lie, or how the arrays of a tree or model do.

        What is more than a name is evaluated on all processes.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          The pieces with their slices, bytes and devices; `text()` is what `%dist_shards` prints.

        Raises:
          ArrayError: `expression` holds no JAX arrays, or is one without values.
          SessionError: A process is busy, or did not answer in time.
        """
        doing = self._doing()
        if doing is not None:
            path = expression.strip()
            shards: Shards | None = self._when_reported(
                lambda now: Shards.seen(path, now, while_=doing)
            )
            if shards is None:
                raise _unreported(expression, doing)
            return shards
        try:
            answer = self._first("shards", expression, timeout_s)
        except ArrayError:
            elsewhere = self._elsewhere(expression.strip())
            if elsewhere is None:
                raise
            return elsewhere
        return Shards.decode(answer, self.snapshot())

    def _elsewhere(self, path: str) -> Shards | None:
        """What other processes than the one that is asked have reported under a path, and it has not."""
        engines = self._alive()
        first = engines.choice.targets(None)[0]
        while_ = f"there is no such array on {engines.where(first)}"
        self._look()
        found = Shards.seen(path, self.snapshot(), while_=while_)
        if found is None or any(not a.processes or first in a.processes for a in found.arrays):
            return None
        return found

    def _when_reported(self, look: Callable[[Snapshot], Any]) -> Any:
        """What `look` finds in what is reported now, or a moment later: of what was made just before."""
        deadline = time.monotonic() + REPORTED_SECONDS
        while not (found := look(self.snapshot())) and time.monotonic() < deadline:
            time.sleep(SETTLE_SECONDS)
        return found

    def _doing(self) -> str | None:
        """In which cell the lowest of the processes is that are in one; None where none is."""
        engines = self._alive()
        sent = self._background.busy()
        inside = next((p for p in sorted(self.hosts) if p in sent or engines.in_cell(p)), None)
        if inside is None or engines.in_cell(inside):
            return None if inside is None else engines.doing(inside)
        # It has been sent one, and not yet reported so.
        return f"{engines.where(inside)} is in cell {sent[inside]}"

    def values(self, path: str, *, timeout_s: float = LOOK_SECONDS) -> dict[str, Any]:
        """What is in the array under a path, as the live view shows it, out of what each process has of it.

        Args:
          path: As the view lists it; nothing is evaluated.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          `text`, and `picture` as `nbdist.summary.picture` gives it.

        Raises:
          ArrayError: There is no array under this path, or it is still being computed.
          SessionError: A process is busy, or did not answer in time.
        """
        engines = self._alive()
        workers = [p for p in engines.choice.targets(None) if p in engines.facts.workers]
        self._refuse_while_busy(workers)
        found = ask_some(engines, "summary", workers, timeout_s=timeout_s, path=path)
        return shown_values(path, {p: answer for p, (answer, _) in found.items()})

    def _widget_event(self, event: Event) -> None:
        """Has the processes do what a person asks of a widget; all of them at the same time, as a cell."""
        engines = self._alive()
        try:
            deliver(engines, event, busy=self._background.busy(), rules=self._rules)
        except NbdistError as error:
            engines.monitor.fault(str(error))
            raise

    def nan(self, expression: str, *, timeout_s: float = ANSWER_SECONDS) -> str:
        """Counts NaN and infinite values in each array of a tree, by piece and without a collective.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          Text, as `%dist_nan` prints it.

        Raises:
          ArrayError: `expression` raises, or names nothing.
          SessionError: A process is busy, or did not answer in time; or the session computes with TensorFlow.
        """
        engines = self._alive()
        framework = framework_named(self.plan.framework)
        if not framework.counts_nan:
            raise SessionError(
                f"NaN are counted in JAX arrays; this session computes with {framework.title}."
            )
        workers = [p for p in engines.choice.targets(None) if p in engines.facts.workers]
        found = self._evaluated("nan", expression, workers, timeout_s=timeout_s)
        return nan_text(expression, {p: answer for p, (answer, _) in found.items()})

    def layout(self, expression: str, *, timeout_s: float = ANSWER_SECONDS) -> Layout | Shards:
        """Every variable of one Keras model, with the rule that placed it and what each device holds.

        Of any other tree of arrays the same as `shards`.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          A `Layout` of a Keras model, `Shards` of anything else; `text()` is what `%dist_layout` prints.

        Raises:
          ArrayError: `expression` is no Keras model or layer, or one without variables.
          SessionError: A process is busy, or did not answer in time.
        """
        doing = self._doing()
        if doing is not None:
            return self._layout_reported(expression.strip(), doing)
        answer = self._first("layout", expression, timeout_s)
        kind = Layout if "model" in answer else Shards
        return kind.decode(answer, self.snapshot())

    def _layout_reported(self, path: str, doing: str) -> Layout | Shards:
        """As `layout`, of what was reported."""

        def look(now: Snapshot) -> Layout | Shards | None:
            model = Layout.seen(path, now, while_=doing)
            return Shards.seen(path, now, while_=doing) if model is None else model

        found: Layout | Shards | None = self._when_reported(look)
        if found is None:
            raise _unreported(path, doing)
        return found

    def _first(
        self, name: str, expression: str, timeout_s: float, **arguments: Any
    ) -> dict[str, Any]:
        first = self._alive().choice.targets(None)[:1]
        return self._evaluated(name, expression, first, timeout_s=timeout_s, **arguments)[first[0]][
            0
        ]

    def _evaluated(
        self, name: str, expression: str, ids: Sequence[int], *, timeout_s: float, **arguments: Any
    ) -> Answers:
        """What processes answer of an expression; all evaluate it together where it may compute."""
        engines = self._alive()
        self._wait_for_ends()
        self._refuse_while_busy(ids)
        if not engines.proves or is_name(expression):
            arguments["expression"] = expression
            return ask_some(engines, name, ids, timeout_s=timeout_s, **arguments)
        if engines.facts.out_of_step:
            refuse_computing(expression, engines.facts)
        return ask_all_workers(
            engines,
            name,
            wanted=ids,
            timeout_s=timeout_s,
            rules=self._rules,
            expression=expression,
            **arguments,
        )

    def _refuse_while_busy(self, ids: Sequence[int]) -> None:
        busy = self._background.busy()
        inside = next((p for p in ids if p in busy), None)
        if inside is not None:
            raise SessionError(
                f"{self._alive().doing(inside)}: its values are available when that has ended. %sync waits for "
                "it, %dist_interrupt --stop-at-step or %dist_interrupt ends it."
            )

    # -- asking ----------------------------------------------------------------------------------

    def ask_idle(self, name: str, *, timeout_s: float, **arguments: Any) -> dict[str, Any] | None:
        """Asks the lowest idle process.

        Args:
          name: The name of a function in `nbdist.engine.kernel.calls`.
          timeout_s: How many seconds it may take to answer.
          **arguments: Of the function.

        Returns:
          Its answer; None when none is idle or none answers in time.
        """
        return (
            self._engines.ask_idle(name, timeout_s=timeout_s, **arguments)
            if self._engines
            else None
        )

    # -- the end ---------------------------------------------------------------------------------

    def sync(self, *, timeout_s: float | None = None) -> None:
        """Waits until every process has finished what it was given.

        Args:
          timeout_s: How many seconds at most; None: as long as it takes.

        Raises:
          ProcessError: A cell of a kernel before this one has failed.
          TimeoutError: Some are still busy after `timeout_s` seconds.
        """
        for run in self._regained:
            run.wait(timeout_s, show=False)
        self._alive().wait_until_idle(timeout_s=timeout_s)
        self._wait_for_ends()

    def sync_files(self) -> Copied:
        """Brings what has changed of the files that `sync` named to the hosts, as `%dist_sync` does.

        Modules that are imported already stay as they are.

        Returns:
          What was sent to which hosts, in how many seconds, and the modules that are still the old ones.

        Raises:
          SessionError: The session was started without `sync`.
          OptionError: The files have become too much; nothing was sent.
          SyncError: A host could not take them; it has what it had.
        """
        return self._alive().sync_files()

    def recover(self, *, progress: StartProgress | None = None) -> str:
        """Brings the processes in step again; with TensorFlow, replaces lost ones and makes the strategy anew.

        Variables stay, but for what had not been computed on all processes.

        Args:
          progress: As for `nbdist.start`.

        Returns:
          One line that says what was done.

        Raises:
          SessionError: A process is in the middle of a cell.
          RecoveryError: It did not succeed with JAX or Keras; the session stays as it is.
          LaunchError: It did not succeed with TensorFlow.
        """
        engines = self._alive()
        self._wait_for_ends()
        done = recover(engines, progress=progress or silent)
        self._history.recovered()
        self._write_down(engines)
        return done

    def restart(self, *, progress: StartProgress | None = None) -> None:
        """Stops all processes and starts the same plan afresh; their variables are lost.

        Args:
          progress: As for `nbdist.start`.

        Raises:
          SessionError: Somebody else has started them.
        """
        if not self._ours:
            raise SessionError(
                "This kernel has not started these processes and does not stop them. Start them again where they "
                "came from, or start others: %dist_shutdown, then %dist_init."
            )
        self.shutdown()
        self._start(spawn(self._asked), progress or silent)

    def shutdown(self) -> None:
        """Stops what was started, by handle, and only leaves what somebody else has started.

        A second call does nothing.
        """
        if not self._ours:
            self.detach()
            return
        engines = self._give_up()
        if engines is not None:
            engines.stop()
            registry.remove(self.id)

    def detach(self) -> None:
        """Lets the processes go on without this kernel. Those of a session that is not kept end with it."""
        engines = self._give_up()
        if engines is not None:
            registry.go(self.id)
            engines.leave()

    def leave(self) -> None:
        """Lets go on what outlives this kernel, and stops the rest."""
        if self.kept:
            self.detach()
        else:
            self.shutdown()

    def _give_up(self) -> EngineGroup | None:
        engines, self._engines = self._engines, None
        if engines is not None:
            atexit.unregister(self.leave)
            self._background.leave()
        return engines

    def _alive(self) -> EngineGroup:
        if self._engines is None:
            raise SessionError("The session has ended. %dist_init starts one.")
        return self._engines

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        state = self.describe() if self.alive else "ended"
        return f"<nbdist.Session {self.id}: {state}>"


def _unreported(expression: str, doing: str) -> SessionError:
    return SessionError(
        f"{doing}. Until it ends, only what was reported can be shown, and {expression!r} was not: %dist_mesh "
        "lists what was."
    )
