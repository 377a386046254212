"""`Session`: the one object a user holds. Every magic is one method of it."""

from __future__ import annotations

import atexit
import itertools
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nbdist.values as move
from nbdist.crew import Crew
from nbdist.errors import SessionError
from nbdist.keeping import say_kept, say_running, take_up, write_down
from nbdist.launch import registry
from nbdist.launch.attach.regained import Regained
from nbdist.launch.spawn import Spawned, spawn
from nbdist.launch.sync import Copied
from nbdist.launch.tell import Tell, silent
from nbdist.recovery import recover
from nbdist.run.cellrun import CellHandle, CellRun
from nbdist.run.choice import Targets
from nbdist.run.execution import Cell, without_leading_blank_lines
from nbdist.run.facts import Facts
from nbdist.run.history import History, PastCell
from nbdist.run.history import read as read_history
from nbdist.run.regained import RegainedRun
from nbdist.run.standing import Standing
from nbdist.snapshot import Snapshot
from nbdist.transfer import LARGE_BYTES
from nbdist.view.feed import Feed
from nbdist.view.layout import Layout
from nbdist.view.picture import Picture
from nbdist.view.shards import Shards
from nbdist.view.text import status_text

ANSWER_SECONDS = 30.0
"""How long an idle process may take to answer a small request."""

MAX_PICTURES = 8
"""The stills of the newest views are kept up to date; older ones stay as they are."""


class Session:
    """Processes that run cells together; also a context manager that ends them.

    Made by `nbdist.start` or `nbdist.attach`. All methods may be called from the thread that runs cells.
    """

    def __init__(
        self,
        source: Spawned | Regained,
        *,
        grace_s: float,
        tell: Tell,
        feed: Feed | None = None,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self._left_out = left_out
        self.feed = feed or Feed()
        self._grace_s = grace_s
        self._pictures: list[Picture] = []
        self._crew: Crew | None = None
        if isinstance(source, Regained):
            self._attach(source, tell)
        else:
            self._asked = source.plan
            self.id = uuid.uuid4().hex[:8]
            self._start(source, tell)

    def _start(self, spawned: Spawned, tell: Tell) -> None:
        crew = Crew.begin(spawned, session=self.id, tell=tell, publish=self._publish)
        self._numbers = itertools.count(1)
        self._history = History(Path(crew.link.folder))
        self._running: list[RegainedRun] = []
        self._ours = True
        self._take(crew)
        unwritten = write_down(crew, session=self.id, asked=self._asked, grace_s=self._grace_s)
        self._own_remarks = ([unwritten] if unwritten else [say_kept(self.id)]) * self.plan.keep

    def _attach(self, regained: Regained, tell: Tell) -> None:
        self._asked, self._ours, self.id = regained.asked, regained.ours, regained.session
        folder = Path(regained.link.folder)
        known = read_history(folder)
        crew = Crew.again(
            regained,
            session=self.id,
            tell=tell,
            publish=self._publish,
            since=known.since,
            stuck=known.stuck,
        )
        numbers = [past.number for past in known.past] + [cell.number for cell in known.running]
        self._numbers = itertools.count(1 + max(numbers, default=0))
        self._history = History(folder)
        self._history.cells = known.past
        self._take(crew)
        self._running = take_up(
            crew,
            known.running,
            besides=regained.others,
            grace_s=self._grace_s,
            ended=self._ended,
        )
        self._own_remarks = [*regained.remarks, *say_running(self._running)]

    def _take(self, crew: Crew) -> None:
        self._crew = crew
        self.plan = crew.plan
        self._snapshot = crew.monitor.snapshot
        self._described = crew.describe()
        atexit.register(self.leave)

    # -- what is there -------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the session has processes."""
        return self._crew is not None

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
        handles = [CellHandle(run) for run in self._running]
        return tuple(handle for handle in handles if not handle.done)

    @property
    def client(self) -> Any:
        """ipyparallel's own client of the engines, for what nbdist does not do."""
        return self._alive().link.client

    def snapshot(self) -> Snapshot:
        """What is known of the whole session now, as plain data."""
        return self._snapshot()

    def status(self) -> str:
        """One row a process, as `%dist_status` prints it."""
        self._look()
        return status_text(self.snapshot())

    def mesh(self, path: str | None = None) -> Picture:
        """The view of this session, and of where one array lies; `show()` displays it."""
        self._look()
        picture = Picture(self.feed, self.snapshot, path=path)
        self._pictures = [*self._pictures[-MAX_PICTURES + 1 :], picture]
        return picture

    def _look(self) -> None:
        if self._crew is not None:
            self._crew.look()

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
        cell: int | None = None,
        offset: int = 0,
        renderer: Any = None,
    ) -> CellHandle:
        """Runs code on the processes and shows its output as it comes.

        Args:
          code: What IPython runs as a cell: statements, magics, `!cmd`, top-level `await`.
          on: Target words (`"0,2:4"`, `"[0,1-2]"`, `"host=h1"`) or process ids; default: all.
          timeout_s: Interrupt the cell after so many seconds.
          grace_s: How long other processes may stay in the cell when one has failed.
          wait: Return when the cell has ended; otherwise at once.
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
        """
        crew = self._alive()
        chosen = crew.choice.targets(on)
        number = cell if cell is not None else next(self._numbers)
        # IPython takes leading blank lines away before it counts.
        code, blank = without_leading_blank_lines(code)
        handle = CellRun(
            Cell(number=number, code=code, offset=offset + blank),
            targets=chosen,
            link=crew.link,
            hosts=self.hosts,
            heard=crew.monitor,
            interrupt=crew.interrupt,
            folder=Path(crew.link.folder) / "output",
            grace_s=self._grace_s if grace_s is None else grace_s,
            timeout_s=timeout_s,
            out_of_step=crew.facts.out_of_step and not crew.facts.workers.isdisjoint(chosen),
            remarks=crew.choice.remarks(on, chosen),
            told=crew.told,
            began=self._history.begun,
            ended=self._ended,
            renderer=renderer,
        ).begin()
        if wait:
            handle.wait()
        return handle

    def interrupt(self) -> None:
        """Interrupts what runs on all processes; the session is out of step afterwards."""
        crew = self._alive()
        followed: set[int] = set()
        for run in self._running:
            if not CellHandle(run).done:
                run.interrupt()
                followed |= run.execution.requests.keys() | set(run.execution.targets)
        crew.interrupt([p for p in sorted(self.hosts) if p not in followed])

    def _ended(
        self, cell: Cell, standings: dict[int, Standing], started: float, sending: int
    ) -> Facts:
        """Learns from a cell that has ended."""
        facts = self._alive().learn(standings, cell.number)
        failed = [s for s in standings.values() if s.outcome != "finished"]
        self._history.ended(
            PastCell(
                number=cell.number,
                code=cell.code,
                targets=tuple(standings),
                started=started,
                seconds=time.time() - started,
                outcome=failed[0].outcome if failed else "finished",
            ),
            run=sending,
            since=facts.since,
            stuck=facts.stuck,
        )
        return facts

    # -- values ----------------------------------------------------------------------------------

    def push(self, values: Mapping[str, Any], *, on: Targets = None) -> None:
        """Puts values of this kernel into the processes' namespaces under these names.

        Raises:
          ArrayError: A value that cannot be pickled; nothing has been sent.
        """
        crew = self._alive()
        move.push(crew.send, crew.choice.targets(on), values)

    def pull(
        self,
        expression: str,
        *,
        on: Targets = None,
        limit_bytes: int = LARGE_BYTES,
        confirm: Callable[[str], bool] | None = None,
    ) -> Any:
        """Brings one value here; a global array whole, as NumPy, each unique shard sent once.

        A typed PRNG key comes as its key data. A value that is no array comes from the first
        target, and its data is pickled.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          on: From these processes only; default: all.
          limit_bytes: Arrays larger in whole are refused, or asked about.
          confirm: Asked with a sentence before a larger array is sent.

        Raises:
          ArrayError: Unknown, deleted, donated, a tracer, too large, or not picklable.
        """
        crew = self._alive()
        return move.pull(
            crew.send,
            crew.choice.targets(on),
            expression,
            framework=self.plan.framework,
            limit_bytes=limit_bytes,
            confirm=confirm,
        )

    def shards(self, expression: str) -> Shards:
        """Where the pieces of one array lie.

        Raises:
          ArrayError: `expression` is no JAX array, or one without values.
        """
        crew = self._alive()
        first = crew.choice.targets(None)[0]
        request = crew.send(first, "shards", expression=expression, framework=self.plan.framework)
        return Shards.decode(request.get(ANSWER_SECONDS)[0], self.snapshot())

    def layout(self, expression: str) -> Layout:
        """Every variable of one Keras model, with the rule that placed it and what each device holds.

        Raises:
          ArrayError: `expression` is no Keras model or layer, or one without variables.
        """
        crew = self._alive()
        first = crew.choice.targets(None)[0]
        request = crew.send(first, "layout", expression=expression)
        return Layout.decode(request.get(ANSWER_SECONDS)[0], self.snapshot())

    # -- asking ----------------------------------------------------------------------------------

    def ask_idle(self, name: str, *, timeout_s: float, **arguments: Any) -> dict[str, Any] | None:
        """Asks the lowest idle process; None when none is idle or none answers in time."""
        return self._crew.ask_idle(name, timeout_s=timeout_s, **arguments) if self._crew else None

    # -- the end ---------------------------------------------------------------------------------

    def sync(self, *, timeout_s: float | None = None) -> None:
        """Waits until every process has finished what it was given.

        Raises:
          ProcessError: A cell of a kernel before this one has failed.
          TimeoutError: Some are still busy after `timeout_s` seconds.
        """
        for handle in self.running:
            handle.wait(timeout_s)
        self._alive().wait_until_idle(timeout_s=timeout_s)

    def sync_files(self) -> Copied:
        """Brings what has changed of the files that `sync` named to the hosts, as `%dist_sync` does.

        Modules that are imported already stay as they are; the answer names them.

        Raises:
          SessionError: The session was started without `sync`.
          OptionError: The files have become too much; nothing was sent.
          SyncError: A host could not take them; it has what it had.
        """
        return self._alive().sync_files()

    def recover(self, *, tell: Tell | None = None) -> str:
        """Replaces lost processes and makes TensorFlow's strategy anew; variables of the others stay.

        Returns:
          One line that says what was done.

        Raises:
          SessionError: Another framework, or a process is in the middle of a cell.
          LaunchError: It did not succeed.
        """
        crew = self._alive()
        done = recover(crew, tell=tell or silent)
        self._history.recovered()
        write_down(crew, session=self.id, asked=self._asked, grace_s=self._grace_s)
        return done

    def restart(self, *, tell: Tell | None = None) -> None:
        """Stops all processes and starts the same plan afresh; their variables are lost.

        Raises:
          SessionError: Somebody else has started them.
        """
        if not self._ours:
            raise SessionError(
                "This kernel has not started these processes and does not stop them. Start them again where they "
                "came from, or start others: %dist_shutdown, then %dist_init."
            )
        self.shutdown()
        self._start(spawn(self._asked), tell or silent)

    def shutdown(self) -> None:
        """Stops what was started, by handle, and only leaves what somebody else has started.

        A second call does nothing.
        """
        if not self._ours:
            self.detach()
            return
        crew = self._give_up()
        if crew is not None:
            crew.stop()
            registry.remove(self.id)

    def detach(self) -> None:
        """Lets the processes go on without this kernel. Those of a session that is not kept end with it."""
        crew = self._give_up()
        if crew is not None:
            registry.go(self.id)
            crew.leave()

    def leave(self) -> None:
        """Lets go on what outlives this kernel, and stops the rest."""
        if self.kept:
            self.detach()
        else:
            self.shutdown()

    def _give_up(self) -> Crew | None:
        crew, self._crew = self._crew, None
        if crew is not None:
            atexit.unregister(self.leave)
            for run in self._running:
                run.leave()
        return crew

    def _alive(self) -> Crew:
        if self._crew is None:
            raise SessionError("The session has ended. %dist_init starts one.")
        return self._crew

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
