"""`Session`: the one object a user holds. Every magic is one method of it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from nbdist.contract.calls import Call
from nbdist.contract.cells import PastCell
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import HostError, LostArrayError, Notice, SessionError
from nbdist.launch.files.sync import Copied
from nbdist.launch.model.happenings import StartProgress, silent
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.start_options import Rules
from nbdist.launch.sessions.recorded import values_used_lines, with_values
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.spawn import spawn
from nbdist.session import moving, resizing
from nbdist.session.cells.cellrun import CellHandle
from nbdist.session.cells.history import ListedCell
from nbdist.session.cells.targets import Targets
from nbdist.session.keeping import sync_files
from nbdist.session.life import Life
from nbdist.session.looking import Views, stacks
from nbdist.session.moving import LARGE_BYTES, Progress, Saved
from nbdist.session.running import CellOptions
from nbdist.spelling import command
from nbdist.view.feed import Feed
from nbdist.view.output.renderer import SHOWN
from nbdist.view.picture import Picture
from nbdist.view.program import Explained
from nbdist.view.shards import Layout, Shards
from nbdist.view.status import status_text

A = TypeVar("A")

Say = Callable[[str], None]
"""Called with lines of text while something takes long."""

ANSWER_SECONDS = 30.0
"""Seconds an idle process may take to answer a small request."""

COMPILE_SECONDS = 600.0
"""Seconds the processes may take to compile the program of a call."""

LOOK_SECONDS = 5.0
"""Seconds processes may take to look at the values of an array."""

SAVE_SECONDS = 600.0
"""Seconds a save, or a restore, may take by default."""

PULL_SECONDS = 120.0
"""Seconds processes may take to send a value."""


class Session:
    """Processes that run cells together; also a context manager that ends them.

    Created by `nbdist.start` or `nbdist.attach`. Any thread may call its methods, and other kernels may attach:
    one thread and kernel at a time sends what may compute, and the others wait in line.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        rules: Rules,
        progress: StartProgress,
        feed: Feed | None = None,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self._left_out = left_out
        self._given: list[str] = []
        self._rules = rules
        self._views = Views(feed)
        self.feed = self._views.feed
        self.id = cluster.session
        self._live(cluster, progress)

    def _live(self, cluster: Cluster, progress: StartProgress) -> None:
        channel = self._views.channel()
        channel.open()
        begin = Life.begin if cluster.client is None else Life.attach
        life = begin(cluster, rules=self._rules, progress=progress, publish=channel.publish)
        self._take(life)

    @property
    def _asked(self) -> Plan:
        """The plan that was asked for; a scheduler may have put the processes elsewhere."""
        return self._life.engines.cluster.asked

    def _take(self, life: Life) -> None:
        self._life = life
        self.feed.on_fault = life.engines.monitor.fault
        self.feed.values = self.values
        self.feed.outputs = SHOWN.of
        self.plan = life.engines.plan
        atexit.register(self.leave)

    # -- what is there -------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the session has processes."""
        return self._life.engines.alive

    @property
    def hosts(self) -> Mapping[int, str]:
        """Host name by process id."""
        return self.plan.hosts

    @property
    def out_of_step(self) -> bool:
        """Whether collectives of different processes may no longer match."""
        return self._alive().engines.facts.out_of_step

    @property
    def kept(self) -> bool:
        """Whether it outlives this kernel: it is to be kept, or somebody else has started it."""
        return self.plan.keep or not self.ours

    @property
    def ours(self) -> bool:
        """Whether `shutdown` stops it; a session that somebody else has started is only left."""
        return bool(self._life.engines.cluster.agents.all)

    @property
    def history(self) -> list[PastCell]:
        """The cells that have ended, including those of earlier kernels."""
        return self._life.cells.history.cells

    @property
    def running(self) -> tuple[CellHandle, ...]:
        """Cells of an earlier kernel that still run."""
        return tuple(CellHandle(run) for run in self._life.cells.regained)

    def cells(self) -> tuple[ListedCell, ...]:
        """Return the cells that run in the background, and the last that have ended.

        Returns:
          In the order they were sent in.
        """
        return self._life.cells.listed()

    @property
    def client(self) -> Any:
        """ipyparallel's own client of the engines, for tasks that nbdist does not do.

        Requests sent through it are not ordered with cells. If they compute on the devices of several processes
        while this or another kernel runs a cell, collectives can pair and give wrong numbers. If the processes
        have then sent different programs, the next cell fails and has them repaired, which may lose results of the
        last cell; numbers already printed are not corrected.
        """
        return self._alive().engines.cluster.client

    def stacks(self, on: Targets = None, *, native: bool = False) -> str:
        """Return the Python stacks of processes, equal ones once, even while they run a cell.

        Args:
          on: Show all threads of these processes; None: the main threads of all processes.
          native: Include C and C++ frames, and all threads, if py-spy is installed and may trace.

        Returns:
          Text, as `%dist_stack` prints it.

        Raises:
          TargetError: There is no such process, or it is gone.
          SessionError: Somebody else has started the processes.
        """
        return stacks(self._alive().engines, on, native=native)

    def snapshot(self, *, fresh: bool = False) -> Snapshot:
        """Return everything known of the whole session now.

        Args:
          fresh: Make idle processes report first, and wait for that.

        Returns:
          Plain data that grows with devices and arrays; sizes are in bytes, times in Unix seconds.
        """
        if fresh:
            self._look()
        return self._life.engines.monitor.snapshot()

    def status(self) -> str:
        """Return where each process is.

        Returns:
          Text with one row for each process, as `%dist_status` prints it: state, cell, line, seconds, memory.
        """
        snapshot = self.snapshot(fresh=True)
        copies = self._life.engines.copies.text() if self.alive else None
        return "\n".join([status_text(snapshot), *([copies] if copies else [])])

    def mesh(self, path: str | None = None) -> Picture:
        """Return the view of this session, and of where one array lies.

        Args:
          path: The path of the array, as the view lists it, such as `params['w']`; None: none is selected.

        Returns:
          A picture that follows the session; `show()` displays it.

        Raises:
          LostArrayError: The array was lost; the text says when and why.
        """
        self._look()
        lost = self._life.engines.lost_texts.get(path or "")
        if lost is not None and all(array.path != path for array in self.snapshot().arrays):
            raise LostArrayError(lost)
        return self._views.picture(self.snapshot, path=path)

    def _look(self) -> None:
        if self.alive:
            self._life.engines.reports.look(self._life.cells.background.busy())

    def describe(self) -> str:
        """Return one line: processes, hosts, devices, and how long the start took."""
        return self._life.described

    @property
    def remarks(self) -> list[str]:
        """Remarks about this start that a person must read, a sentence each."""
        left_out = [f"Left out: {text}" for text in self._left_out]
        return [*left_out, *self._given, *self._alive().remarks]

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
        """Run code on the processes and show its output as it comes.

        Args:
          code: What IPython runs as a cell: statements, magics, `!cmd`, top-level `await`.
          on: Target words (`"0,2:4"`, `"[0,1-2]"`, `"host=h1"`) or process ids; default: all.
          timeout_s: Interrupt the cell after this many seconds.
          grace_s: How many seconds other processes may stay in the cell when one has failed.
          wait: Return when the cell has ended; otherwise at once.
          live: Without `wait`, show the output nevertheless, as it arrives.
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
        options = CellOptions(
            on=on,
            timeout_s=timeout_s,
            grace_s=grace_s,
            wait=wait,
            live=live,
            check=check,
            cell=cell,
            offset=offset,
            renderer=renderer,
        )
        return self._alive().cells.run(code, options)

    def cell(self, number: int) -> CellHandle:
        """Return a cell in the background, also of an earlier kernel, while it runs and shortly after.

        Args:
          number: Its number.

        Returns:
          Its handle.

        Raises:
          SessionError: No cell of this number runs in the background or is one of the newest there.
        """
        return CellHandle(self._alive().cells.background.newest(number))

    def follow(self, cell: int) -> None:
        """Show the output of a cell in the background until it ends; an interrupt ends only this call.

        Args:
          cell: Its number.

        Raises:
          SessionError: No cell of this number runs in the background.
        """
        self._alive().cells.background.find(cell).watch()

    def debug(self, on: Targets, *, cell: int | None = None) -> None:
        """Open the prompt of a debugger on processes.

        If one waits at a breakpoint in a background cell, that cell is followed to its end, and the prompts of its
        processes are shown here; an interrupt ends only this call. Otherwise the debugger is a post-mortem: each
        process shows the frame in which its last failed cell raised.

        Args:
          on: The processes, as in `run`.
          cell: The notebook's execution count; default: counted here.

        Raises:
          SessionError: No cell has failed on one of the processes, or one is in the middle of a cell.
          ProcessError: The debugger was left with an error.
        """
        self._alive().cells.debug(on, cell=cell)

    def interrupt(self, cell: int | None = None) -> str:
        """Interrupt everything that runs on all processes; then prove that they are in step, or repair them.

        Args:
          cell: The number of one cell in the background; None: everything that runs.

        Returns:
          One line that says what was interrupted.

        Raises:
          SessionError: `cell` does not run in the background.
        """
        return self._alive().cells.interrupt(cell)

    def stop_at_step(self) -> str:
        """Make all processes leave the cells in the background before the same step; all stay in step.

        A step begins when the cell calls `nbdist.checkpoint()`, and when Keras begins a batch. A cell in which
        neither happens runs on.

        Returns:
          One line for each cell.

        Raises:
          SessionError: No cell runs in the background, or its processes cannot agree on a step.
        """
        return self._alive().cells.stop_at_step()

    # -- values ----------------------------------------------------------------------------------

    def push(
        self,
        values: Mapping[str, Any],
        *,
        on: Targets = None,
        sharding: str | None = None,
        progress: Progress = moving.silent,
    ) -> None:
        """Put values of this kernel into the processes' namespaces under these names, on all of them or on none.

        Functions and objects of the notebook's own classes are sent with their code. With a sharding, each process
        gets only its shards of a NumPy array, as one global `jax.Array`. Arrays of 1 MB and more are in memory
        once on each host, shared by its processes; a process that writes to its array gets copies of the pages it
        writes.

        Args:
          values: The values, by name.
          on: The processes that get them; default: all.
          sharding: An expression of the processes, such as `"NamedSharding(mesh, P('x'))"`; each value must be a
            NumPy array.
          progress: Called with the bytes sent so far and their total.

        Raises:
          ArrayError: A value cannot be pickled, or is no array although one is needed; nothing has been sent.
          SpecError: The sharding does not fit an array; nothing has been changed.
          OptionError: `sharding` was combined with `on`.
          SessionError: A process is in a cell, or did not answer in time; nothing has been changed.
          GoneError: A process ended in the meantime.
        """
        life = self._alive()
        with life.engines.turn.taken(timeout_s=moving.PUSH_SECONDS):
            life.cells.print_ends()
            targets = life.engines.choice.targets(on)
            moving.push(
                life.engines,
                targets,
                values,
                sharding=sharding,
                busy=life.cells.background.busy(),
                rules=self._rules,
                progress=progress,
            )
            if {*targets} >= life.engines.facts.workers:
                life.engines.health.sure_of(values)

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
        """Bring one value here: an array, or a container of any depth with all the arrays in it, as NumPy.

        A global array arrives whole, each distinct shard sent once. An array that is whole on several processes
        must be equal on all of them, which is checked by digests. A Flax NNX module arrives as its state, a typed
        PRNG key as its key data. A value that is no array is pickled; this kernel must have its classes. An
        expression that is more than a name may compute, so it is evaluated on all processes at the same time,
        whatever `on` says.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          on: The processes whose value is wanted; default: all.
          each: Bring the value of each process, which may differ, as a dict by process id.
          limit_bytes: A larger value is refused, or asked about.
          confirm: Asked with a sentence before a larger value is sent.
          timeout_s: How many seconds the processes may take to answer.
          progress: Called with the bytes received so far and their total.

        Returns:
          The value, arrays as NumPy in their global shape; with `each` a dict of such values by process id.

        Raises:
          ArrayError: The value is unknown, deleted, donated, a tracer, too large, not picklable, of a class that
            this kernel lacks, or not the same on all processes.
          SessionError: A process is busy, or did not answer in time.
          GoneError: A process ended in the meantime.
        """
        life = self._alive()
        with life.engines.turn.taken(timeout_s=timeout_s):
            return moving.pull(
                life.engines,
                lambda offer, ids: life.evaluation.of(offer, ids, timeout_s=timeout_s),
                life.engines.choice.targets(on),
                expression,
                each=each,
                limit_bytes=limit_bytes,
                confirm=confirm,
                timeout_s=timeout_s,
                progress=progress,
            )

    def save(
        self,
        path: str | os.PathLike[str],
        names: Sequence[str] = (),
        *,
        timeout_s: float = SAVE_SECONDS,
    ) -> Saved:
        """Write variables of the processes into a folder, by shard, each process its own, with Orbax.

        JAX arrays can be saved, and dicts, lists, named tuples and other pytrees of them, which may also hold
        NumPy arrays, typed PRNG keys, numbers and texts. Values that each process has for itself must be equal on
        all. An earlier save in the folder stays complete until this one is.

        Args:
          path: A folder that all hosts see, or one to be created in such a folder.
          names: The names of the variables; default: all that hold arrays on several processes.
          timeout_s: How many seconds the save may take.

        Returns:
          What was saved, and what was left out.

        Raises:
          ArrayError: A name is unknown, differs between the processes, or holds what cannot be saved.
          OptionError: The folder is not a save of nbdist, or not all hosts see it.
          SessionError: A process is busy or did not end in time; Orbax is not installed; or the session computes
            with TensorFlow.
          GoneError: A process ended in the meantime.
        """
        life = self._alive()
        with life.engines.turn.taken(timeout_s=timeout_s):
            life.cells.wait_for_ends()
            return moving.save(
                life.engines,
                os.fspath(path),
                names,
                busy=life.cells.background.busy(),
                rules=self._rules,
                timeout_s=timeout_s,
            )

    def restore(
        self,
        path: str | os.PathLike[str],
        names: Sequence[str] = (),
        *,
        timeout_s: float = SAVE_SECONDS,
    ) -> Saved:
        """Read variables that `save` has written, on the same or another number of processes, on all or on none.

        An existing name keeps its own sharding; its arrays must have the saved shapes and dtypes. A new name gets
        its saved `PartitionSpec` on a mesh with the saved axes, of any sizes: the mesh that is set, or one that
        has a name. Without such a mesh it is replicated over all devices.

        Args:
          path: The folder.
          names: The names of the variables; default: all of the save.
          timeout_s: How many seconds the restore may take.

        Returns:
          What was restored, and how it is laid out.

        Raises:
          ArrayError: The folder has no complete save, or a saved value does not fit the existing one of its name.
          SpecError: An axis of the mesh does not divide a dimension.
          SessionError: A process is busy or did not end in time; Orbax is not installed; or the session computes
            with TensorFlow.
          GoneError: A process ended in the meantime.
        """
        life = self._alive()
        with life.engines.turn.taken(timeout_s=timeout_s):
            life.cells.wait_for_ends()
            return moving.restore(
                life.engines,
                os.fspath(path),
                names,
                busy=life.cells.background.busy(),
                rules=self._rules,
                timeout_s=timeout_s,
            )

    def shards(self, expression: str, *, timeout_s: float = ANSWER_SECONDS) -> Shards:
        """Return where the shards of one array lie, or how the arrays of a tree or model do.

        An expression that is more than a name is evaluated on all processes.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          The shards with their slices, bytes and devices; `text()` is what `%dist_shards` prints.

        Raises:
          ArrayError: `expression` holds no JAX arrays, or is one without values.
          SessionError: A process is busy, or did not answer in time.
        """
        return self._alive().looks.shards(expression, timeout_s=timeout_s)

    def values(self, path: str, *, timeout_s: float = LOOK_SECONDS) -> dict[str, Any]:
        """Return a summary of the array under a path, as the live view shows it, made of each process's part.

        Args:
          path: The path, as the view lists it; nothing is evaluated.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          `text`, and `picture` as `nbdist.summary.picture` gives it.

        Raises:
          ArrayError: There is no array under this path, or it is still being computed.
          SessionError: A process is busy, or did not answer in time.
        """
        return self._alive().looks.values(path, timeout_s=timeout_s)

    def nan(self, expression: str, *, timeout_s: float = ANSWER_SECONDS) -> str:
        """Count NaN and infinite values in each array of a tree, by shard and without a collective.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          Text, as `%dist_nan` prints it.

        Raises:
          ArrayError: `expression` raises, or names nothing.
          SessionError: A process is busy, or did not answer in time; or the session computes with TensorFlow.
        """
        return self._alive().looks.nan(expression, timeout_s=timeout_s)

    def explain(self, expression: str, *, timeout_s: float = COMPILE_SECONDS) -> Explained:
        """Return the program that a call would run: its memory, and its collectives by axis and source line.

        All processes lower and compile it from the types of the arguments; nothing of it runs.

        Args:
          expression: A call of a function made by `jax.jit`, such as `step(params, batch)`; its function and
            arguments may be any expressions of the processes' namespace.
          timeout_s: How many seconds the processes may take to compile it.

        Returns:
          An `Explained`; `text()` is what `%dist_explain` prints in a terminal, `picture()` what it
          shows in a notebook, `remark` names processes whose program differs.

        Raises:
          ArrayError: `expression` is no call, raises, or its function is not made by `jax.jit`.
          ProgramError: The compiler's result cannot be read.
          SessionError: A process is busy, or did not answer in time.
        """
        return self._alive().looks.explain(expression, timeout_s=timeout_s)

    def layout(self, expression: str, *, timeout_s: float = ANSWER_SECONDS) -> Layout | Shards:
        """Return every variable of one Keras model, with the rule that placed it and what each device holds.

        For any other tree of arrays, return the same as `shards`.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          timeout_s: How many seconds the processes may take to answer.

        Returns:
          A `Layout` of a Keras model, `Shards` of anything else; `text()` is what `%dist_layout` prints.

        Raises:
          ArrayError: `expression` is no Keras model or layer, or one without variables.
          SessionError: A process is busy, or did not answer in time.
        """
        return self._alive().looks.layout(expression, timeout_s=timeout_s)

    # -- asking ----------------------------------------------------------------------------------

    def ask_idle(self, call: Call[A], *, timeout_s: float) -> A | None:
        """Ask the lowest idle process.

        Args:
          call: One of `nbdist.contract.calls`.
          timeout_s: How many seconds it may take to answer.

        Returns:
          Its answer; None when none is idle or none answers in time.

        :meta private:
        """
        if not self.alive:
            return None
        return self._life.alone.ask(call, timeout_s=timeout_s)

    # -- the end ---------------------------------------------------------------------------------

    def sync(self, *, timeout_s: float | None = None) -> None:
        """Wait until every process has finished what it was given.

        Args:
          timeout_s: The longest wait in seconds; None: without a limit.

        Raises:
          ProcessError: A cell that was waited for has failed.
          TimeoutError: Some are still busy after `timeout_s` seconds.
        """
        self._alive().cells.sync(timeout_s=timeout_s)

    def sync_files(self) -> Copied:
        """Bring changed files of the paths that `sync` named to the hosts, as `%dist_sync` does.

        Modules that are already imported stay as they are.

        Returns:
          What was sent to which hosts, in how many seconds, and the modules of which the old version is loaded.

        Raises:
          SessionError: The session was started without `sync`.
          OptionError: The files have become too many or too large; nothing was sent.
          SyncError: A host could not take them; its files are unchanged.
        """
        return sync_files(self._alive().engines)

    def resize(
        self, processes: int, *, progress: StartProgress | None = None, say: Say = print
    ) -> Notice:
        """Go on with another number of processes on this machine, which get the variables of the present ones.

        New processes are started beside the old ones, get the names of one of them and their parts of all arrays,
        and replace them. A mesh over all devices is made anew: the first axis that can change size does. Arrays
        keep their `PartitionSpec` on it; a dimension that the new size does not divide is whole on each device.

        Args:
          processes: The new number of processes.
          progress: As for `nbdist.start`.
          say: Called with what will be laid out differently, before anything is started.

        Returns:
          What was done, and what is not as before.

        Raises:
          OptionError: There are as many already, or the number is impossible; nothing was changed.
          SessionError: The number cannot change in this session, or it is not in step; nothing was changed.
          ArrayError: A mesh or a variable cannot exist on this number; nothing was changed.
          LaunchError: The new processes could not be started; nothing was changed.
          GoneError: A process ended in the meantime; the old processes are still there.
        """
        return self._resize(lambda plan: resizing.planned(plan, processes), (), progress, say)

    def _resize(
        self,
        asked: Callable[[Plan], Plan],
        without: Sequence[str],
        progress: StartProgress | None,
        say: Say,
    ) -> Notice:
        before, channel = self._alive(), self._views.channel()
        with before.engines.turn.taken() as taken_over:
            for done in (taken_over, before.cells.wait_for_ends()):
                if done is not None:
                    say(done)
            resizing.refuse(before.engines, self._asked)
            plan = with_values(asked(self._asked), os.environ)
            life, said = before.resized(
                plan, without=without, publish=channel.publish, progress=progress or silent, say=say
            )
        atexit.unregister(self.leave)
        self._given = values_used_lines(self._asked)
        self._take(life)
        channel.open(life.engines.monitor.snapshot())
        before.replaced()
        return said

    def recover(
        self,
        *,
        without: Sequence[str] = (),
        progress: StartProgress | None = None,
        say: Say = print,
    ) -> Notice:
        """Bring the processes in step again, and replace those that have ended.

        Variables stay, except values that had not been computed on all processes. A new process gets the names of
        a living one, and the parts of arrays that others have; what only the ended process had is lost, and
        listed. If a host was gone and is back, all processes are started anew in this way. With TensorFlow, new
        processes have no variables, and the strategy is created anew.

        Args:
          without: Hosts to leave out, such as one that does not come back: new processes on the remaining hosts
            replace all others, as in `resize`.
          progress: As for `nbdist.start`.
          say: As for `resize`, if hosts are left out or are back.

        Returns:
          What was done, and what is not as before.

        Raises:
          SessionError: A process is in the middle of a cell.
          RecoveryError: The repair failed (JAX and Keras); the session stays as it is.
          LaunchError: The repair failed (TensorFlow).
          HostError: A host that was gone is not back; nothing was changed.
          OptionError: `without` names no host of the session, or all.
        """
        if without:
            hosts = [without] if isinstance(without, str) else list(without)
            return self._resize(
                lambda plan: resizing.planned_without(plan, hosts), hosts, progress, say
            )
        life = self._alive()
        gone = resizing.hosts_gone(life.engines)
        if not gone:
            return life.recover(progress=progress or silent)
        try:
            return self._resize(lambda plan: plan, gone, progress, say)
        except HostError as error:
            remedy = f"{error}\nNothing was changed. {life.engines.facts.remedy}"
            raise HostError(remedy, host=error.host) from error

    def why(self) -> Notice | None:
        """Return the last failure or repair, with all its details; None if there was none."""
        return self._alive().engines.notice

    def restart(self, *, progress: StartProgress | None = None) -> None:
        """Stop all processes and start the same plan afresh; their variables are lost.

        Args:
          progress: As for `nbdist.start`.

        Raises:
          SessionError: Somebody else has started them, or this kernel lacks an environment variable with which
            another kernel started them; nothing has been stopped.
        """
        if not self.ours:
            raise SessionError(
                "This kernel has not started these processes and does not stop them. Start them again where they "
                f"came from, or start others: {command('shutdown')}, then {command('start')}."
            )
        asked = self._asked
        plan = with_values(asked, os.environ)
        self.shutdown()
        self._live(spawn(plan, session=self.id), progress or silent)
        self._given = values_used_lines(asked)

    def shutdown(self) -> None:
        """Stop the processes; only leave those that somebody else has started.

        A second call does nothing.
        """
        if not self.ours:
            self.detach()
            return
        self._life.stop()
        atexit.unregister(self.leave)

    def detach(self) -> None:
        """Leave the processes running without this kernel; a session that is not kept ends with its own kernel."""
        self._life.leave()
        atexit.unregister(self.leave)

    def leave(self) -> None:
        """Leave the processes running if the session outlives this kernel; otherwise stop them."""
        if self.kept:
            self.detach()
        else:
            self.shutdown()

    def _alive(self) -> Life:
        self._life.engines.living()
        return self._life

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
