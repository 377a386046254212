"""The magics: each reads its line, calls one method of `Session` and displays the result."""

from __future__ import annotations

import contextlib
import functools
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from IPython.core.magic import Magics, cell_magic, line_cell_magic, line_magic, magics_class
from IPython.display import display

from nbdist.errors import ArrayError, NbdistError, Notice, OptionError, ProcessError, SessionError
from nbdist.launch.doctor import doctor, running
from nbdist.launch.model.start_options import StartOptions
from nbdist.magics import options
from nbdist.magics.parser import HelpShown, evaluated, missing_name, names_and_expressions
from nbdist.magics.typed import CELL_MAGIC, Completion, Mode, refuse_here, run_here, say_here
from nbdist.notation import count_text
from nbdist.session.cells.history import cells_text
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.session import Session
from nbdist.spelling import Door, through
from nbdist.starting import attach_session, kept_here, no_session, start_session
from nbdist.view.channel import Broadcast
from nbdist.view.feed import Feed
from nbdist.view.output import show_details
from nbdist.view.progress import Moved, ProgressDisplay

if TYPE_CHECKING:
    from nbdist.rehearsal import ArrayPlan, Comparison, Rehearsing
    from nbdist.session.cells.cellrun import CellHandle

F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", NbdistError, KeyboardInterrupt)


def teaching(method: F) -> F:
    """Show nbdist's errors and interrupts without nbdist's stack frames; let `--help` return quietly.

    The text of `--help` is added to the docstring, which IPython shows for, say, `%dist_pull?`.
    """

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            with through(Door.MAGIC):
                return method(*args, **kwargs)
        except HelpShown:
            return None
        except NbdistError as error:
            raise _shown_alone(error, str(error)) from None
        except KeyboardInterrupt as error:
            raise _shown_alone(error, f"%{method.__name__} was interrupted.") from None

    if method.__name__ in options.MAGICS:
        called.__doc__ = f"{method.__doc__}\n\n{options.parser(method.__name__).format_help()}"
    return cast(F, called)


def reads_options(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method a magic: it gets the options that the magic's parser read from the line, not the line."""

    @functools.wraps(method)
    def read(magics: DistMagics, line: str, *cell: str) -> Any:
        return method(magics, options.parser(method.__name__).parse(line), *cell)

    return teaching(read)


def reads_expression(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method a magic: it gets the options at the front of the line and the expression after them."""

    @functools.wraps(method)
    def read(magics: DistMagics, line: str) -> Any:
        parser = options.parser(method.__name__)
        return method(magics, *parser.parse_before_expression(line))

    return teaching(read)


def _shown_alone(error: E, said: str) -> E:
    if not hasattr(error, "_render_traceback_"):
        text = f"{type(error).__name__}: {said}"
        error._render_traceback_ = lambda: text.splitlines()  # type: ignore[attr-defined]
    return error


@contextlib.contextmanager
def _undone_by_interrupt(undo: Callable[[], None]) -> Iterator[None]:
    """Undo a start that is interrupted: a session left behind would make the next start fail."""
    try:
        yield
    except KeyboardInterrupt:
        undo()
        raise


@magics_class
class DistMagics(Magics):
    """The magics that `%load_ext nbdist` registers; holds the active session."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.session: Session | None = None
        self.feed = Feed()
        self.mode = Mode()
        self.channel = Broadcast(self.feed, on_processes=lambda: self.mode.enabled)
        self._rehearsing: Rehearsing | None = None
        self.completion = Completion(shell, lambda: self.session, lambda: self.mode.enabled)

    # -- the session -----------------------------------------------------------------------------

    @line_magic
    @reads_options
    def dist_init(self, asked: Namespace) -> None:
        """Start processes, connect them, and form one cluster; in a live one, -n alone changes their number."""
        if asked.restart:
            options.refuse_beside_restart(asked)
            self._restart()
            return
        arguments = (
            options.attach_arguments(asked) if asked.attach else options.start_arguments(asked)
        )
        living = self._living
        if living is not None:
            if not asked.attach and options.asks_for_processes_alone(arguments):
                self._resize(arguments["processes"])
                return
            raise SessionError(
                f"A session is running, and nothing has been changed: {living.describe()}. Go on with "
                "%%dist; %dist_init -n N alone changes the number of its processes; %dist_init --restart starts "
                "it afresh as it was; for other options end it first, with %dist_shutdown."
            )
        with self._progress() as progress:
            if asked.attach:
                self.session = attach_session(
                    asked.attach, progress=progress, feed=self.feed, **arguments
                )
                with _undone_by_interrupt(self.session.detach):
                    self._started(progress)
                return
            options_of_start = StartOptions(**arguments)
            self.session = start_session(options_of_start, progress=progress, feed=self.feed)
            with _undone_by_interrupt(self.session.shutdown):
                self._started(progress, kept_here(besides=self.session.id))

    def _resize(self, processes: int) -> None:
        session = self._active()
        with self._progress() as progress:
            self._close(progress, session.resize(processes, progress=progress))

    def _restart(self) -> None:
        session = self._active()
        with self._progress() as progress:
            session.restart(progress=progress)
            with _undone_by_interrupt(session.shutdown):
                self._started(progress)

    def _started(self, progress: ProgressDisplay, others: Sequence[str] = ()) -> None:
        session = self._active()
        progress.close("\n".join([session.describe(), *session.remarks, *others]))
        session.mesh().show(in_notebook=self._in_notebook, strip=True)

    @line_magic
    @reads_options
    def dist_recover(self, asked: Namespace) -> None:
        """Bring the processes in step again; with TensorFlow, replace lost ones and make the strategy anew."""
        with self._progress() as progress:
            self._close(progress, self._active().recover(without=asked.without, progress=progress))

    def _close(self, progress: ProgressDisplay, done: Notice) -> None:
        progress.close(str(done))
        if self._in_notebook:
            show_details(done, self.shell)

    @line_magic
    @reads_options
    def dist_why(self, asked: Namespace) -> None:
        """Show the last failure or repair with all its details."""
        found = self._active().why()
        lines = [str(found), *found.details] if found is not None else ["Nothing has failed."]
        print("\n".join(lines))

    @property
    def _in_notebook(self) -> bool:
        return getattr(self.shell, "kernel", None) is not None

    @property
    def _living(self) -> Session | None:
        return self.session if self.session is not None and self.session.alive else None

    def _active(self) -> Session:
        session = self._living
        if session is None:
            raise SessionError(no_session())
        return session

    def _progress(self) -> ProgressDisplay:
        return ProgressDisplay(in_notebook=self._in_notebook)

    @line_magic
    @reads_options
    def dist_shutdown(self, asked: Namespace) -> None:
        """Stop what was started."""
        session = self._active()
        count = count_text(len(session.hosts), "process")
        if asked.leave and not session.kept:
            raise SessionError(
                "This session was not started with --keep: its processes end with this kernel."
            )
        if asked.leave:
            session.detach()
        else:
            session.shutdown()
        self.mode.enabled = False  # a plain cell would find no session
        self.channel.say_mode()
        print(
            f"{count} left running, as {'asked' if session.ours else 'this kernel has not started them'}"
            if asked.leave or not session.ours
            else f"{count} stopped"
        )

    @line_magic
    @reads_options
    def dist_interrupt(self, asked: Namespace) -> None:
        """Interrupt what runs on the processes."""
        session = self._active()
        print(session.stop_at_step() if asked.stop_at_step else session.interrupt())

    @line_magic
    @reads_options
    def dist_cells(self, asked: Namespace) -> None:
        """List the cells that run and the last that have ended; follow one, or interrupt it."""
        session = self._active()
        if asked.interrupt:
            if asked.cell is None:
                raise OptionError(
                    "--interrupt needs the number of a cell: %dist_cells 83 --interrupt. %dist_interrupt "
                    "interrupts all that runs."
                )
            print(session.interrupt(asked.cell))
        elif asked.cell is not None:
            session.follow(asked.cell)
        else:
            print(cells_text(session.cells()))

    @line_magic
    @reads_options
    def dist_status(self, asked: Namespace) -> None:
        """One row a process: where it is, what it does, what it holds."""
        print(self._active().status())

    @line_magic
    @reads_options
    def dist_stack(self, asked: Namespace) -> None:
        """Show what processes are in the middle of, also while they run a cell."""
        print(self._active().stacks(asked.on, native=asked.native))

    @line_magic
    @reads_options
    def dist_debug(self, asked: Namespace) -> None:
        """Look at the frame in which the last cell failed on a process, or answer one that is at a breakpoint."""
        self._active().debug(asked.on, cell=self._cell_number)

    @line_magic
    @reads_options
    def dist_doctor(self, asked: Namespace) -> None:
        """Check the hosts: what is wrong, where, and what to type."""
        arguments = options.doctor_arguments(asked)
        living = self._living
        if living is not None and not arguments["placement"].hosts:
            arguments = running(living.plan)
        report = doctor(**arguments)
        print(report.json() if asked.json else report.text())

    @line_magic
    @reads_options
    def sync(self, asked: Namespace) -> None:
        """Wait until all processes have finished what they were given."""
        self._active().sync()

    @line_magic
    @reads_options
    def dist_sync(self, asked: Namespace) -> None:
        """Bring changed files of `%dist_init --sync` to the hosts."""
        print(self._active().sync_files())

    @property
    def _cell_number(self) -> int:
        """The number of the cell that runs, as the notebook shows it.

        IPython 8 counts up after a cell, IPython 9 before it; in both, the history has one entry for each cell.
        """
        return max(1, len(self.shell.history_manager.input_hist_raw) - 1)

    # -- cells -----------------------------------------------------------------------------------

    def _run(self, code: str, **options: Any) -> CellHandle:
        try:
            return self._active().run(code, **options)
        except ProcessError as error:
            say_here(error, self.shell.user_ns)
            raise

    @line_cell_magic
    @teaching
    def dist(self, line: str, cell: str | None = None) -> Any:
        """Run this cell on the processes; as %dist, what stands behind it on the line."""
        if cell is None:
            asked, cell = options.parser("dist").parse_before_code(line)
            if not cell:
                raise OptionError(
                    "%dist runs the rest of its line on the processes, such as %dist x.shape. For a whole cell "
                    "write %%dist as its first line."
                )
            offset = 0
        else:
            asked, offset = options.parser("dist").parse(line), 1
        send = functools.partial(
            self._run,
            cell,
            on=asked.on,
            timeout_s=asked.timeout,
            grace_s=asked.grace,
            wait=not asked.no_wait,
            live=self._in_notebook,
            check=asked.check,
            cell=self._cell_number,
            offset=offset,
        )
        if asked.here:
            refuse_here(self.shell, cell, wait=not asked.no_wait)
            run_here(self.shell, cell, processes=send)
            return None
        handle = send()
        return handle if asked.no_wait else None

    @cell_magic
    @teaching
    def distributed(self, line: str, cell: str) -> Any:
        """The same as `%%dist`."""
        return self.dist(line, cell)

    @cell_magic
    @teaching
    def rank(self, line: str, cell: str) -> None:
        """Run this cell on some processes: `%%rank [0,1-2]`, both ends included."""
        words = line.strip()
        if not words or {"--help", "-h"}.intersection(words.split()):
            options.parser("rank").parse("--help")
        if not words.startswith("["):
            words = f"[{words}]"
        self._run(cell, on=words, cell=self._cell_number, offset=1)

    @cell_magic
    @reads_options
    def local(self, asked: Namespace, cell: str) -> None:
        """Run this cell in the notebook while `%dist_mode` is on."""
        # Without options, `Mode` removes this line before IPython looks for magics.

    @cell_magic(CELL_MAGIC)
    @teaching
    def dist_plain(self, line: str, cell: str) -> None:
        """A plain cell while `%dist_mode` is on."""
        self._run(cell, cell=self._cell_number)

    @line_magic
    @reads_options
    def dist_mode(self, asked: Namespace) -> None:
        """Run plain cells on the processes (-e), or no longer (-d)."""
        if asked.enable:
            self._active()
            self.mode.enabled = True
        elif asked.disable:
            self.mode.enabled = False
        self.channel.say_mode()
        where = (
            "on all processes; %%local runs one here" if self.mode.enabled else "in the notebook"
        )
        print(f"plain cells run {where}")

    # -- values ----------------------------------------------------------------------------------

    @line_magic
    @teaching
    def dist_mesh(self, line: str) -> None:
        """Show hosts, devices and meshes, and where an array lies, live."""
        # A path such as params['w'] holds quotes that a shell would take away.
        path = line.strip()
        if path.startswith("-"):
            options.parser("dist_mesh").parse(line)
        if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"":
            path = path[1:-1]
        self._active().mesh(path or None).show(in_notebook=self._in_notebook)

    @line_magic
    @reads_expression
    def dist_shards(self, asked: Namespace, expression: str) -> None:
        """Show the shards of one array, or the arrays of a tree or model."""
        found = self._active().shards(expression, **options.timeout(asked))
        print(found.text(by_bytes=asked.by_bytes))

    @line_magic
    @reads_expression
    def dist_nan(self, asked: Namespace, expression: str) -> None:
        """Count NaN and Inf in each array of a tree, shard by shard, without a collective."""
        print(self._active().nan(expression, **options.timeout(asked)))

    @line_magic
    @reads_expression
    def dist_explain(self, asked: Namespace, expression: str) -> None:
        """Compile a call without running it: its memory, and what its devices exchange, for which line."""
        found = self._active().explain(expression, **options.timeout(asked))
        if not self._in_notebook:
            print(found.text())
            return
        if found.remark:
            print(found.remark)
        found.picture().show(in_notebook=True)

    @line_magic
    @reads_expression
    def dist_layout(self, asked: Namespace, expression: str) -> None:
        """Show each variable of a Keras model with the rule that placed it; of others as %dist_shards does."""
        print(self._active().layout(expression, **options.timeout(asked)).text())

    @line_magic
    @reads_expression
    def dist_plan(self, asked: Namespace, expression: str) -> None:
        """Show what each device of a pod would hold of an array, a tree or a model, by shapes alone."""
        plan = self._plan(asked, expression)
        if not self._in_notebook:
            print(plan.text())
            return
        display(plan)
        if (picture := plan.picture()) is not None:
            picture.show(in_notebook=True)

    def _plan(self, asked: Namespace, expression: str) -> ArrayPlan:
        """Return the plan of an expression, evaluated here or, if a name is missing here, on the processes."""
        from nbdist.rehearsal import make_plan, read_where

        names, session = self.shell.user_ns, self._living
        # Checked before the expression is evaluated, since that may take long.
        where = read_where(asked.topology, slices=asked.slices, devices=asked.devices)
        specs = None if asked.specs is None else evaluated(asked.specs, names, option="--specs ")
        if session is not None and missing_name(expression, names) is not None:
            found = session.shards(expression)
            value, source, shards = None, "the processes", (found.arrays, found.meshes)
        else:
            value, source, shards = evaluated(expression, names), "this notebook", None
        return make_plan(
            value,
            specs,
            where=where,
            mesh=asked.mesh,
            memory=asked.memory,
            name=expression,
            source=source,
            shards=shards,
        )

    @cell_magic
    @teaching
    def dist_rehearse(self, line: str, cell: str) -> Comparison | None:
        """Run this cell on a pod that is not there: what it compiles, whether that fits, what it sends."""
        # Imported here, since most notebooks rehearse nothing.
        from nbdist.rehearsal import Rehearsing

        asked = options.parser("dist_rehearse").parse(line)
        self._rehearsing = self._rehearsing or Rehearsing(in_notebook=self._in_notebook)
        comparison = self._rehearsing.run(
            # The first line, so that lines have the numbers that the notebook shows.
            f"# %%dist_rehearse {line}\n{cell}",
            topology=asked.topology,
            slices=asked.slices,
            meshes=asked.mesh,
            value=asked.value,
            timeout_s=asked.timeout,
            restart=asked.restart,
        )
        if comparison is not None and asked.programs:
            print(comparison.details(), end="\n\n")
        return comparison

    @line_magic
    @reads_options
    def dist_push(self, asked: Namespace) -> None:
        """Send values of this notebook to the processes."""
        missing = [name for name in asked.names if name not in self.shell.user_ns]
        if missing:
            raise ArrayError(f"This notebook has no name {missing[0]!r}; nothing was sent.")
        values = {name: self.shell.user_ns[name] for name in asked.names}
        session = self._active()
        with self._moved("sent") as progress:
            session.push(values, on=asked.on, sharding=asked.sharding, progress=progress)

    @line_magic
    @teaching
    def dist_pull(self, line: str) -> None:
        """Bring values of the processes into this notebook."""
        asked = options.parser("dist_pull").parse_among_code(line)
        session = self._active()
        wanted = names_and_expressions(asked.names)
        arguments = {"on": asked.on, "each": asked.each, **options.timeout(asked)}
        confirm = _say_yes if asked.yes else self._ask_person
        values = {}
        for name, expression in wanted.items():
            with self._moved("received") as progress:
                values[name] = session.pull(
                    expression, confirm=confirm, progress=progress, **arguments
                )
        self.shell.push(values)

    @line_magic
    @reads_options
    def dist_save(self, asked: Namespace) -> None:
        """Write variables of the processes into a folder, by shard."""
        print(self._active().save(asked.path, asked.names, **options.timeout(asked)))

    @line_magic
    @reads_options
    def dist_restore(self, asked: Namespace) -> None:
        """Read variables that %dist_save has written, on as many processes or another number."""
        print(self._active().restore(asked.path, asked.names, **options.timeout(asked)))

    def _debugger(self, force: bool = False) -> None:
        """Open a post-mortem; `%debug` and `%pdb on` call this in place of the shell's public method.

        An error from a process is debugged on that process: in the notebook it has only nbdist's frames.
        """
        error = getattr(sys, "last_value", None)
        first = next(iter(error.failures), None) if isinstance(error, ProcessError) else None
        asked = force or self.shell.call_pdb
        if not (asked and isinstance(first, ProcessOutcome) and self.session is not None):
            type(self.shell).debugger(self.shell, force)
            return
        try:
            self.dist_debug(str(first.process_id))
        except NbdistError as refused:
            # Printed, not raised: after `%pdb on` IPython is in the middle of showing an error, and shows no
            # other.
            print("\n".join(refused._render_traceback_()))  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def _moved(self, verb: str) -> Iterator[Moved]:
        progress = Moved(verb, in_notebook=self._in_notebook)
        yield progress
        progress.close()

    def _ask_person(self, question: str) -> bool:
        """Ask a yes-or-no question; if nobody can answer, the answer is no."""
        try:
            return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, NotImplementedError, RuntimeError):
            return False

    # -- in the shell ----------------------------------------------------------------------------

    @property
    def installed(self) -> bool:
        """Return whether the magics can be typed."""
        return self.mode.transform in self.shell.input_transformers_cleanup

    def install(self) -> None:
        """Register the magics, completion, cell mode, debugger and channel."""
        self.shell.register_magics(self)
        self.shell.input_transformers_cleanup.insert(0, self.mode.transform)
        self.shell.debugger = self._debugger
        self.completion.install()
        self.channel.open()

    def remove(self) -> None:
        """Remove what `install` registered; a running session goes on."""
        self.channel.close()
        self.completion.remove()
        self.shell.input_transformers_cleanup.remove(self.mode.transform)
        del self.shell.debugger  # uncovers the method of the class
        for kind, names in self.magics.items():
            for name in names:
                self.shell.magics_manager.magics[kind].pop(name, None)

    def close(self) -> None:
        """End the session and the rehearsals, if any are running."""
        if self._rehearsing is not None:
            self._rehearsing.end()
        if self.session is not None:
            self.session.leave()
        self.feed.close()


def _say_yes(question: str) -> bool:
    return True


def _found(shell: Any) -> DistMagics | None:
    found = shell.magics_manager.registry.get(DistMagics.__name__)
    return found if isinstance(found, DistMagics) else None


def load(shell: Any) -> DistMagics:
    """Register the magics in a shell, with their earlier session if any; a second call changes nothing."""
    magics = _found(shell) or DistMagics(shell)
    if not magics.installed:
        magics.install()
    return magics


def unload(shell: Any) -> None:
    """Remove what `load` registered. A running session goes on; the next `load` finds it again."""
    magics = _found(shell)
    if magics is None or not magics.installed:
        return
    magics.remove()  # stays in the registry: nobody asked to end the session
    goes_on = magics.session is not None and magics.session.alive
    print(f"nbdist unloaded{'; the session goes on, %load_ext nbdist finds it' * goes_on}")


def end(shell: Any) -> None:
    """Unload the magics, and end the session as at the end of the kernel."""
    magics = _found(shell)
    if magics is not None:
        unload(shell)
        magics.close()
        shell.magics_manager.registry.pop(DistMagics.__name__)
