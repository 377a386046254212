"""Handling of SIGINT: an interrupt ends the user's code, never the code that sends the reply.

ipykernel installs Python's own handler from the moment it takes a request until it has sent the reply. A
`KeyboardInterrupt` raised outside the request's code ends the request without a reply, and the sender waits for
ever. A second interrupt can do this while the reply to the first is on its way, and so can one that comes before
the code has begun. An interrupt raised in a destructor or a weak reference's callback, wherever the signal happens
to find the main thread, is printed and lost, and the code goes on.

So the handler raises inside windows only. An interrupt that comes before a window, in the same request, is raised
when the window opens. Nor does the handler raise while the lock of a `threading.Condition` is taken or released:
the lock would stay locked, or be released twice. Events and queues use such locks. One of them is the event with
which ipykernel waits until output is sent: if its lock breaks, the process shows no output any more. Code that
must run to its end (`put_off`) is interrupted only afterwards.

`AgreedStop` has all processes leave a stopped cell before the same step. A step begins where a person calls
`nbdist.checkpoint()`, and where Keras begins a batch. Where one process has done a step more than another, the
other processes' parts of that step never come, and the data that the step has taken is lost. An interrupt finds
each process at a different place. So each interrupted process writes its next step to the key-value store of JAX's
coordinator, and waits a moment. If all processes are about to begin the same step, they leave. A process that is
behind the others goes on to its next step. So does a process that waits for the others in vain, since they may be
in a step that needs it. The first process to write a decision for a step decides for all: the store does not
overwrite.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, FunctionType, TracebackType
from typing import Any, NoReturn

from nbdist.engine.cell.running import CurrentCell

AGAIN_SECONDS = 0.02
"""Time after which an interrupt that was lost, or came at the edge of a window, is repeated."""

MOST_FRAMES = 20
"""Most lines of the traceback of an interrupt, the innermost ones."""

DELAY_SECONDS = 1.0
"""Longest time that an interrupt is put off; then it is raised. Code that waits for a lock may take long, and so
may code that must run to its end. Counting repeated interrupts would not measure this time: while JAX waits for a
value, only five a second reach Python."""

MOST_EDGES = 10
"""Times that an interrupt is put off at a lock in any case, even after that time: on a busy machine an interrupt
may be repeated only twice in a second, and a third of the repetitions meet the lock of an event that a loop waits
for."""

LEAVING_SECONDS = 1.0
"""Time after an interrupt was raised for which the interrupted code counts as being on its way out."""


class Interrupt(KeyboardInterrupt):
    """A `KeyboardInterrupt` that IPython shows in few lines.

    Other messages say where a process was. IPython's own traceback, made twice, costs every process a tenth of a
    second before a broken session can be repaired.
    """

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython, which calls this, shows."""
        frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(self.__traceback__)]
        shown = [
            f"   {code.co_filename}, line {line}, in {code.co_name}"
            for code, line in frames[-MOST_FRAMES:]
        ]
        why = f": {self}" if self.args else ""
        return [f"KeyboardInterrupt{why}", *shown]


# Replies and tracebacks show the class under the name of the error that it stands for.
Interrupt.__name__ = Interrupt.__qualname__ = "KeyboardInterrupt"
Interrupt.__module__ = "builtins"

LOCKING = frozenset(
    method.__code__
    for name, method in vars(threading.Condition).items()
    if isinstance(method, FunctionType) and name not in {"wait", "wait_for"}
)
"""Code in which a lock was just taken or is about to be released; all methods but those that wait."""


class InterruptHandler:
    """SIGINT handler of one engine; all but `leaving` is for the main thread."""

    def __init__(self) -> None:
        self._window: Window | None = None
        self._pending = False
        self._repeated: threading.Timer | None = None
        self._raised_at: float | None = None
        edges = (InterruptHandler.swap, InterruptHandler._handle, Window.__enter__, Window.__exit__)
        self._edges = {method.__code__ for method in edges} | LOCKING
        self._delayed_since: float | None = None
        self._edges_met = 0
        self._handling = self._came_meanwhile = self._swapping = False
        self._whole = self._put_off = self._stepping = False

    def install(
        self, kernel: Any, shell: Any, *, interruptible: Callable[[str | None], bool]
    ) -> None:
        """Install the handler, with effect from the kernel's next request; call once.

        This replaces public methods on the objects: ipykernel's `pre_handler_hook` and `post_handler_hook`, where
        it installs Python's handler and removes it, IPython's `run_code`, and ipyparallel's `do_apply`. Between
        requests this handler stays: ipyparallel's logs each signal, and raises where another comes meanwhile.

        Args:
          kernel: ipyparallel's.
          shell: Its IPython shell.
          interruptible: Returns whether a function call may be interrupted; gets its label.
        """
        run_code, do_apply = shell.run_code, kernel.do_apply

        async def run_interruptible_code(*args: Any, **options: Any) -> Any:
            # An error raised here, outside the code itself, is shown by IPython as an error of the cell.
            with self.window():
                return await run_code(*args, **options)

        def do_interruptible_apply(content: Any, buffers: Any, number: Any, metadata: Any) -> Any:
            if not interruptible(metadata.get("label")):
                return do_apply(content, buffers, number, metadata)
            # A second interrupt would hit ipyparallel while it makes the reply to the first.
            with self.window(once=True):
                return do_apply(content, buffers, number, metadata)

        kernel.pre_handler_hook = kernel.post_handler_hook = self.between_requests
        shell.run_code = run_interruptible_code
        kernel.do_apply = do_interruptible_apply
        self._edges |= {run_interruptible_code.__code__, do_interruptible_apply.__code__}
        self._repeat_what_is_lost()

    def between_requests(self) -> None:
        """Drop interrupts of an earlier request, since one has ended or another is taken."""
        if self._repeated is not None:
            self._repeated.cancel()
        self._window, self._pending, self._repeated = None, False, None
        self._raised_at = self._delayed_since = None
        self._edges_met = 0
        self._whole = self._put_off = self._stepping = False
        signal.signal(signal.SIGINT, self._handle)

    def window(self, *, once: bool = False) -> Window:
        """Return a context in which code may be interrupted.

        Args:
          once: Whether only the first interrupt is raised.
        """
        return Window(self, once=once)

    @contextlib.contextmanager
    def stepping(self) -> Iterator[None]:
        """Run code whose steps `put_off` does whole; an interrupt between two steps waits for the next step."""
        before, self._stepping = self._stepping, True
        try:
            yield
        finally:
            self._stepping = before

    def step(self, leave: Callable[[], bool]) -> None:
        """Begin a step that an interrupt may find anywhere; later ones wait for the next step, a second at most.

        Args:
          leave: Asked where an interrupt waits: returns whether it is raised now.
        """
        if threading.current_thread() is threading.main_thread():
            self._raise_what_waits(leave)
            self._stepping = True

    def _raise_what_waits(self, leave: Callable[[], bool]) -> None:
        if self._put_off and self._window is not None and leave():
            if self._repeated is not None:
                self._repeated.cancel()
            self._raise(self._window)

    @contextlib.contextmanager
    def put_off(self, leave: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Run code whole, unless it takes longer than a second after an interrupt.

        An interrupt that was put off is raised soon after this code, and before the next such code begins. On
        other threads than the main thread nothing is interrupted anyway.

        Args:
          leave: Asked before the code begins while an interrupt is put off: returns whether it is raised now.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._raise_what_waits(leave)
        self._whole = True
        try:
            yield
        finally:
            self._whole = False

    @property
    def leaving(self) -> bool:
        """Return whether an interrupt was raised in this request just now, so that its code is ending."""
        raised_at = self._raised_at
        return raised_at is not None and time.monotonic() - raised_at < LEAVING_SECONDS

    def swap(self, window: Window | None) -> Window | None:
        """Open another window in place of the open one, None for none; return the one that was open."""
        # An interrupt raised while a window opens would leave it open; one noted before it is set would be lost.
        self._swapping = True
        before = self._window
        try:
            self._window = window
            if window is not None and self._pending:
                self._pending = False
                self.again()
        except BaseException:  # raised again, with the window as it was
            self._window = before
            raise
        finally:
            self._swapping = False
        return before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # A second interrupt must not be raised in here: that would be at the edge which the first has met.
        # It may be the repetition of the first, and no other follows, so it is handled after the first.
        if self._handling:
            self._came_meanwhile = True
            return
        while True:
            self._handling, self._came_meanwhile = True, False
            try:
                self._take(frame)
            finally:
                self._handling = False
            if not self._came_meanwhile:
                return

    def _take(self, frame: FrameType | None) -> None:
        window = self._window
        if window is None:
            self._pending = True
            return
        if window.spent:
            return
        at_an_edge = self._swapping or (frame is not None and frame.f_code in self._edges)
        whole = self._whole or self._stepping
        if at_an_edge or whole:
            now = time.monotonic()
            self._delayed_since = self._delayed_since or now
            self._edges_met += at_an_edge
            again = at_an_edge and self._edges_met < MOST_EDGES
            if again or now - self._delayed_since < DELAY_SECONDS:
                self._put_off = whole
                self.again()
                return
        self._raise(window)

    def _raise(self, window: Window) -> NoReturn:
        self._delayed_since, self._edges_met, self._put_off = None, 0, False
        window.spent = window.once
        self._raised_at = time.monotonic()
        raise Interrupt

    def again(self) -> None:
        """Repeat an interrupt soon, since it was lost or came at the wrong moment."""
        if self._repeated is not None:
            self._repeated.cancel()
        main = threading.main_thread().ident
        timer = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (main, signal.SIGINT))
        timer.daemon = True
        self._repeated = timer
        timer.start()

    def _repeat_what_is_lost(self) -> None:
        others: Callable[[Any], Any] = sys.unraisablehook

        def hook(unraisable: Any) -> None:
            mine = threading.current_thread() is threading.main_thread()
            if mine and self._window is not None and unraisable.exc_type is Interrupt:
                self._window.spent = False
                self.again()
            else:
                others(unraisable)

        sys.unraisablehook = hook


class Window:
    """Context in which SIGINT raises `KeyboardInterrupt`; see `InterruptHandler.window`."""

    def __init__(self, interrupts: InterruptHandler, *, once: bool) -> None:
        self._interrupts = interrupts
        self._before: Window | None = None
        self.once = once
        self.spent = False

    def __enter__(self) -> None:
        self._before = self._interrupts.swap(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._interrupts.swap(self._before)


FOLDER = "nbdist/stops"
LEAVE, GO_ON = "leave", "go on"

PATIENCE_SECONDS, MOST_PATIENCE_SECONDS = 0.05, 5.0
"""First and longest wait for other processes; each wait is twice the last, so that a slower process catches up."""

LOOK_SECONDS = 0.002
"""Time between two reads of the store."""


class StoppedBeforeStep(Interrupt):
    """An interrupt that all processes raise before the same step; the kernel knows it by its name."""


class AgreedStop:
    """One process's part in an agreed stop; all but `ask` is for the main thread.

    Args:
      client: Returns JAX's connection to its coordinator; see `nbdist.engine.frameworks.jax.step.origins`.
      cell: The cell that runs.
      process_id: Returns the number of this process.

    Attributes:
      begun: How many steps of the cell have begun here, or are about to.
    """

    def __init__(
        self, client: Callable[[], Any | None], cell: CurrentCell, process_id: Callable[[], int]
    ) -> None:
        self.begun = 0
        self._group: Sequence[int] = ()
        self._asked: int | None = None
        self._client = client
        self._cell = cell
        self._me = process_id
        self._run: int | None = None
        self._patience = PATIENCE_SECONDS

    def ask(self, run: int) -> int | None:
        """Ask for a stop of the cell with this run number, from any thread.

        Returns:
          How many steps have begun here; None where that cell does not run.
        """
        running = self._cell.running
        if running is None or running.run != run:
            return None
        self._asked = run
        return self.begun if self._run == run else 0

    def step(self, group: Sequence[int]) -> None:
        """Count a step that is about to begin; `group` are the processes that take part in it.

        Raises:
          StoppedBeforeStep: A stop was asked for, and all processes leave before this step.
        """
        running = self._cell.running
        run = None if running is None else running.run
        if run != self._run:
            self._run, self.begun, self._patience = run, 0, PATIENCE_SECONDS
        self.begun += 1
        self._group = group
        if run is not None and self._asked == run and self.leave():
            raise StoppedBeforeStep(f"stopped before step {self.begun}")

    def leave(self) -> bool:
        """Return whether to leave before the step that was counted last; called where an interrupt waits.

        The answer is yes where nothing can be agreed on: no other process takes part, the cell is not one of the
        notebook, or the coordinator does not answer.
        """
        client = self._client()
        if client is None or self._run is None or len(self._group) < 2:
            return True
        until = time.monotonic() + self._patience
        self._patience = min(2 * self._patience, MOST_PATIENCE_SECONDS)
        folder = f"{FOLDER}/{self._run}"
        try:
            client.key_value_set(f"{folder}/at/{self._me()}", str(self.begun), allow_overwrite=True)
            while True:
                at, decided = _read(client, folder)
                if self.begun in decided:
                    return decided[self.begun] == LEAVE
                if any(step > self.begun for step in at.values()):
                    return False
                if all(at.get(process) == self.begun for process in self._group):
                    return self._decide(client, folder, LEAVE)
                if time.monotonic() > until:
                    return self._decide(client, folder, GO_ON)
                time.sleep(LOOK_SECONDS)
        except RuntimeError:
            return True

    def _decide(self, client: Any, folder: str, wanted: str) -> bool:
        """Write what happens before this step, unless another process has; return whether all leave."""
        try:
            client.key_value_set(f"{folder}/do/{self.begun}", wanted, allow_overwrite=False)
        except RuntimeError:
            _, decided = _read(client, folder)
            return decided[self.begun] == LEAVE
        return wanted == LEAVE


def _read(client: Any, folder: str) -> tuple[dict[int, int], dict[int, str]]:
    """Return before which step each process stands, and the decision for each step."""
    at, decided = {}, {}
    for key, text in client.key_value_dir_get(folder):
        _, kind, number = key.rsplit("/", 2)
        if kind == "at":
            at[int(number)] = int(text)
        else:
            decided[int(number)] = text
    return at, decided
