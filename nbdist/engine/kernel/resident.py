"""What nbdist keeps on an engine: the cell that runs, the probe, the way to the framework."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdist.contract.asides import QUESTION, WITH_QUESTIONS, Aside
from nbdist.engine.cell.code_owners import CodeOwners
from nbdist.engine.cell.debugger.install import end_tracing
from nbdist.engine.cell.debugger.install import install as install_debugger
from nbdist.engine.cell.debugger.lines import Lines, Where
from nbdist.engine.cell.descriptors import Descriptors
from nbdist.engine.cell.echo import Echo
from nbdist.engine.cell.interrupts import InterruptHandler
from nbdist.engine.cell.main_thread import MainThread, stack_reader
from nbdist.engine.cell.native import native_stacks
from nbdist.engine.cell.notebook_cell import NotebookCells
from nbdist.engine.cell.progress_bars import choose_progress_bars
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.cell.showable import showable
from nbdist.engine.cell.stack import place
from nbdist.engine.cell.stop import AgreedStop
from nbdist.engine.cell.threads import stacks
from nbdist.engine.cell.warned import name_cells
from nbdist.engine.cell.where import where
from nbdist.engine.cell.withdrawal import Withdrawal
from nbdist.engine.frameworks import framework_named, frameworks
from nbdist.engine.frameworks.framework import Framework
from nbdist.engine.kernel.kernel_gaps import (
    allow_await,
    allow_shell_commands,
    refuse_input,
    show_help,
    threads_speak_for_cells,
)
from nbdist.engine.kernel.labels import interruptible
from nbdist.engine.probe.probe import Probe
from nbdist.engine.values.moving import Moving
from nbdist.errors import ArrayError, SessionError
from nbdist.machine.folder import read_whole
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from nbdist.engine.agreement.facts import Agreement
    from nbdist.engine.frameworks.stepping import Repairs, Steps

PAST_CELLS = 200
"""Of so many it is known how they ended."""


class Resident:
    """One for each engine; it lives as an attribute of the engine's kernel.

    Args:
      shell: The engine's IPython shell.
    """

    ATTRIBUTE = "nbdist_resident"

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.kernel = shell.kernel
        self.pid = os.getpid()
        self.host = socket.gethostname()
        self.process_id = -1
        self.cell = CurrentCell()
        self.probe: Probe | None = None
        self._main_thread = MainThread(threading.main_thread().ident or 0)
        self._agreement: Agreement | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.descriptors = Descriptors(self._publish_text)
        self.echo = Echo(self.kernel.iopub_socket)
        self.interrupts = InterruptHandler()
        self.framework = Framework()
        self.stop = AgreedStop(lambda: self.framework.store(), self.cell, lambda: self.process_id)
        self._owners = CodeOwners(frameworks())
        self.lines = Lines(
            self._publish_question, where=self._where, leaving=lambda: self.interrupts.leaving
        )
        self.ends: deque[dict[str, Any]] = deque(maxlen=PAST_CELLS)
        self.step: Steps | None = None
        self.repair: Repairs | None = None
        self.moving = Moving()
        self._request: dict[str, Any] | None = None
        self._shows_widgets = False
        self._began: str | None = None

    @classmethod
    def of(cls) -> Resident:
        """This engine's, made on first use.

        Raises:
          SessionError: This process is not an IPython engine.
        """
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        if shell is None or not hasattr(shell, "kernel"):
            raise SessionError("nbdist's calls run on an ipyparallel engine; this is none.")
        found = getattr(shell.kernel, cls.ATTRIBUTE, None)
        if found is None:
            found = cls(shell)
            setattr(shell.kernel, cls.ATTRIBUTE, found)
        return found

    @classmethod
    def there(cls) -> Resident | None:
        """This engine's; None where this process is none, or does nothing for nbdist."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        return getattr(getattr(shell, "kernel", None), cls.ATTRIBUTE, None)

    def checkpoint(self) -> None:
        """See `nbdist.checkpoint`."""
        running = self.cell.running
        if threading.current_thread() is threading.main_thread() and running is not None:
            self.stop.step(running.targets)
            self.interrupts.step(self.stop.leave)

    def settle(self, *, process_id: int | None, framework_name: str) -> None:
        """Makes the engine ready for cells; a second call changes nothing.

        Args:
          process_id: The number in the launch plan; None to take it from `NBDIST_PROCESS_ID`.
          framework_name: What the session computes with.
        """
        if self.probe is not None:
            return
        if process_id is None:
            process_id = int(os.environ["NBDIST_PROCESS_ID"])
        self.process_id = process_id
        self.framework = framework_named(framework_name)
        self._loop = running_loop()
        self.echo.install()
        NotebookCells(
            self.shell,
            self.cell,
            before=self._remember,
            after=self._code_ended,
            ended=self._cell_ended,
            admit=self._admit,
        ).install()
        self.cell.at_edges(self._note_end)
        threads_speak_for_cells(self.shell)
        refuse_input(self.kernel, wanted=lambda: self.lines.wanted, ask=self.lines.ask)
        install_debugger(self.shell, self.lines, self.interrupts, self._cell_of)
        show_help(self.shell)
        for one in frameworks():
            one.install(self.shell)
        choose_progress_bars(lambda: self._shows_widgets)
        name_cells(self._cell_of)
        allow_await(self.kernel)
        self.interrupts.install(self.kernel, self.shell, interruptible=interruptible)
        Withdrawal().install(self.kernel)
        allow_shell_commands()
        self.descriptors.start()
        self.probe = Probe(
            publish=self._publish_report,
            namespace=lambda: self.shell.user_ns,
            process_id=process_id,
            host=self.host,
            main_thread=threading.main_thread().ident or 0,
            cell=self.cell,
            frameworks=frameworks(),
            owners=self._owners,
        )
        self.probe.start()
        asked = os.environ.pop("NBDIST_ASKED", None)
        self.lines.reachable = asked is not None
        if asked is not None:
            os.set_inheritable(int(asked), False)
            threading.Thread(
                target=self._answer, args=(int(asked),), name="nbdist-asked", daemon=True
            ).start()

    @property
    def where(self) -> str:
        """Names this process in what people read."""
        return where([self.process_id or 0], self.host)

    @property
    def folder(self) -> Path:
        """Private to the session on this host."""
        return Path(os.environ.get("NBDIST_LOG", tempfile.gettempdir() + "/-")).parent

    def _code_ended(self) -> None:
        end_tracing()
        self.descriptors.flush()

    def _cell_ended(self, label: dict[str, Any] | None, failed: bool) -> None:
        if self.step is not None and label is not None:
            compared = bool(label.get("compared"))
            self.step.end_cell(label["run"], failed=failed, compared=compared)

    def _admit(self) -> None:
        """Lets no cell compute before what comes after a failed one has been seen to.

        Raises:
          SessionError: A cell that was sent before has failed here, and its kernel has not yet made sure that the
            processes are in step.
        """
        if self.step is not None and self.step.unsettled:
            raise SessionError(
                f"not run: an earlier cell has failed on {self.where}, and the "
                "processes were not yet in step again. Run this cell again."
            )

    def agreement(self) -> Agreement:
        """Describes what must be equal on all processes; made when it is asked for first."""
        if self._agreement is None:
            from nbdist.engine.agreement.facts import Agreement

            self._agreement = Agreement(self.shell, frameworks())
        return self._agreement

    def publish_step(self, facts: dict[str, Any]) -> None:
        """Says how a cell that has ended stands to the others."""
        self.publish("nbdist_step", facts)

    def publish(self, kind: str, facts: dict[str, Any]) -> None:
        """Sends a message of ours as output of the cell that runs or ran last."""
        self.kernel.session.send(
            self.kernel.iopub_socket,
            kind,
            content=facts,
            parent=self._request,
            ident=f"engine.{self.kernel.engine_id}.step".encode(),
        )

    def _publish_question(self, question: Mapping[str, Any]) -> None:
        """Shows what a debugger asks for, behind what it has shown."""
        self.descriptors.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        self.publish("nbdist_prompt", dict(question))

    def _where(self) -> Where | None:
        running = self.cell.running
        if running is None:
            return None
        stack = stack_reader(sys.version_info[:3])(threading.get_ident())
        at = place(stack, running, self._owners)
        return Where(running.number, at.line, at.source)

    def _answer(self, asked: int) -> None:
        """Does what is asked of this process while its main thread is in the middle of a cell."""
        guard = MessageGuard("A question of a kernel", logger)
        while letters := os.read(asked, 4096):
            with guard:
                self._do(set(map(Aside, letters.decode())))

    def _code_name(self, filename: str) -> tuple[str, str] | None:
        named: tuple[str, str] | None = self.shell.compile.format_code_name(filename)
        return named

    def _cell_of(self, filename: str) -> int | None:
        """The number of the cell that was compiled under this name."""
        found = re.fullmatch(r"In\[(\d+)\]", (self._code_name(filename) or ("", ""))[1])
        return int(found[1]) if found else None

    def _do(self, asked: set[Aside]) -> None:
        if self.step is not None:
            if Aside.ABANDON in asked:
                self.step.abandon()
            if Aside.CUT in asked or (Aside.FREE in asked and self._is_out_of_reach()):
                self.step.cut()
            if Aside.COUNT in asked:
                self.publish("nbdist_sent", self.step.state())
        if Aside.REPEAT in asked:
            self._say_again()
        question = read_whole(self.folder / QUESTION) if asked & WITH_QUESTIONS else None
        if question is not None and Aside.COMPARE in asked and self._loop is not None:
            self._loop.call_soon_threadsafe(self._compare, question)
        if question is not None and Aside.STOP in asked:
            self._answer_to(question, {"steps": self.stop.ask(question["run"])})
        if question is not None and Aside.LINE in asked:
            self._answer_to(question, {"taken": self.lines.put(question["to"], question["reply"])})
        if question is not None and Aside.STACK in asked:
            self._answer_with_stacks(question)
        if Aside.RESCUE in asked and self.step is not None:
            rescued = self.framework.rescue(self.shell.user_ns, self.process_id)
            if rescued is not None:
                self.publish("nbdist_rescue", rescued)

    def _compare(self, question: dict[str, Any]) -> None:
        """Answers with digests of what must be equal before a cell, on the main thread."""
        if self.cell.running:
            return  # it waits in a cell; what it would say is of the middle of it
        self._answer_to(question, self.agreement().digests(question["code"]))

    def _answer_with_stacks(self, question: dict[str, Any]) -> None:
        if not question.get("native"):
            self._answer_to(question, {"threads": stacks(self._code_name)})
            return
        # It takes seconds, in which somebody may have to be freed.
        threading.Thread(
            target=lambda: self._answer_to(question, {"native": native_stacks()}),
            name="nbdist-native",
            daemon=True,
        ).start()

    def _answer_to(self, question: dict[str, Any], answer: dict[str, Any]) -> None:
        """Answers what `nbdist.session.asking` asks."""
        self._broadcast(
            "nbdist_answer",
            {"process_id": self.process_id, "number": question["number"], "answer": answer},
        )

    def _is_out_of_reach(self) -> bool:
        """Whether the main thread is blocked where no signal reaches it, as in a collective, or nobody knows.

        What computes, sleeps, waits for an event or a queue (as `print(…, flush=True)` does), or is on its way out
        after an interrupt, comes back by itself; a cut costs a repair.
        """
        if self.interrupts.leaving or self._main_thread.waits_for_a_thread() is False:
            return False
        return not self._main_thread.waits_in_threading()

    def _say_again(self) -> None:
        if self.probe is not None:
            self.probe.say_again()
        self.kernel.session.send(
            self.kernel.iopub_socket,
            "nbdist_echo",
            content={"process_id": self.process_id, **self.echo.of()},
            parent=None,
            ident=f"echo.{self.process_id}".encode(),
        )

    def _note_end(self) -> None:
        """Called at both edges of a cell; at the first its request has no end yet."""
        request = (self._request or {}).get("header", {}).get("msg_id")
        if request is None or self._began != request:
            self._began = request
            return
        self.ends.append({"request": request, "error": self.cell.error, "time": time.time()})
        self._began = None

    def evaluate(self, expression: str, *, number: int | None = None) -> Any:
        """The value of a user's expression.

        Args:
          expression: Names and whatever they allow.
          number: Of the proof that follows where all processes evaluate it at the same time; None for a name,
            which computes nothing.

        Raises:
          ArrayError: It raised, or names nothing; the text says which.
        """
        try:
            code = compile(expression, "<expression>", "eval")
        except SyntaxError as error:
            raise ArrayError(f"{expression!r} is no expression: {error.msg}.") from error
        with self._together(number, repr(expression)):
            try:
                return eval(code, self.shell.user_global_ns, self.shell.user_ns)
            except Exception as error:
                raise ArrayError(
                    f"{expression!r} raised {type(error).__name__} on {self.where}: {showable(error)}"
                ) from error

    @contextlib.contextmanager
    def _together(self, number: int | None, what: str) -> Iterator[None]:
        """Around what all processes run at the same time, and a proof of that number after it; None: neither.

        Raises:
          SessionError: A cell that was sent before has failed, and has not been seen to.
          ArrayError: It went through, and was not computed alike on all.
        """
        if number is None:
            yield
            return
        self._admit()
        failed = True
        try:
            yield
            failed = False
        finally:
            if self.step is not None:
                self.step.end_cell(number, failed=failed, compared=False)
        if self.step is not None and self.step.unsettled:
            raise ArrayError(f"{what} was not computed alike on all processes.")

    def widget_event(
        self, model: str | None, message: Mapping[str, Any], *, number: int | None = None
    ) -> None:
        """Has a widget do what a person has asked of it; what it shows is output of the newest cell.

        Args:
          model: Its id here; None where only others are asked.
          message: `data` and `buffers`, as the front end has sent them.
          number: As for `evaluate`.

        Raises:
          SessionError: There is no such widget any more.
        """
        with self._together(number, "What the widget does"):
            if model is None:
                return
            comm = self.kernel.comm_manager.comms.get(model)
            if comm is None:
                raise SessionError(f"The widget is no longer there on {self.where}.")
            parent = self.kernel.get_parent("shell")
            self.kernel.set_parent([], self._request or {}, channel="shell")
            try:
                content = {"comm_id": model, "data": message["data"]}
                comm.handle_msg({"content": content, "buffers": message["buffers"]})
            finally:
                self.kernel.set_parent([], parent, channel="shell")

    def _remember(self, request: dict[str, Any], label: dict[str, Any]) -> None:
        # ipykernel keeps the request in a context variable, which other threads do not see.
        self._request = request
        self._shows_widgets = bool(label.get("widgets"))
        if self.step is not None:
            self.step.begin_cell(
                label["run"],
                label["targets"],
                self.shell.user_ns,
                in_step=label.get("in_step"),
            )

    def _publish_report(self, report: dict[str, Any]) -> None:
        self._broadcast("nbdist_report", report)

    def _broadcast(self, kind: str, facts: dict[str, Any]) -> None:
        """Sends a message of ours to every kernel that takes part, whatever it has asked for."""
        self.kernel.session.send(
            self.kernel.iopub_socket,
            kind,
            content=facts,
            parent=None,
            ident=f"nbdist.{self.process_id}".encode(),
        )

    def _publish_text(self, text: str) -> None:
        if self._request is None:
            return  # written while the process started: it is in its log, and shown if it ends
        self.kernel.session.send(
            self.kernel.iopub_socket,
            "stream",
            content={"name": "stderr", "text": text},
            parent=self._request,
            ident=f"engine.{self.kernel.engine_id}.stderr".encode(),
        )


def running_loop() -> asyncio.AbstractEventLoop | None:
    """That of the engine's main thread, in which each request is handled; None outside of one."""
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
