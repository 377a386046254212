"""The state that nbdist keeps on an engine: the cell that runs, the probe, the framework, the way messages go out.

There is one `Resident` on an engine, an attribute of its kernel; every handler of a call gets it. `settle` makes
the engine ready for cells.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.engine import CellEnd
from nbdist.contract.cells import CellLabel
from nbdist.contract.iopub import (
    TYPES,
    CellStep,
    Echo,
    Encoder,
    Kept,
    Prompt,
    Prompting,
    content_of,
)
from nbdist.contract.snapshot import Report
from nbdist.engine.cell.debugger import InputLines, Where
from nbdist.engine.cell.debugger import install as install_debugger
from nbdist.engine.cell.interrupts import AgreedStop, InterruptHandler
from nbdist.engine.cell.output import Descriptors, KeptOutput
from nbdist.engine.cell.running import CurrentCell, place
from nbdist.engine.cell.stacks import CodeOwners, stack_reader
from nbdist.engine.frameworks import Framework, framework_named, frameworks
from nbdist.engine.kernel.answering import running_loop
from nbdist.engine.kernel.shell import (
    NotebookCells,
    close_gaps,
    name_cells,
    report_withdrawals,
)
from nbdist.engine.namespace.copies import CopyStore
from nbdist.engine.namespace.names import users
from nbdist.engine.namespace.process import ProcessState
from nbdist.engine.probe import Probe
from nbdist.engine.values.arrays import small_values
from nbdist.engine.values.incoming import Moving
from nbdist.errors import NotRunError, SessionError, error_text
from nbdist.machine.folder import of_this_process
from nbdist.machine.ports import ReservedPorts
from nbdist.notation import on_host_text

if TYPE_CHECKING:
    from nbdist.engine.agreement import AgreementFacts
    from nbdist.engine.frameworks.interfaces import Repairs, Steps

logger = logging.getLogger(__name__)


class Publisher:
    """A sender of nbdist's messages on the engine's own output channel.

    Messages go out as output of a cell, or to every kernel that takes part in the session.

    Attributes:
      request: The request of the cell that runs or ran last; None before the first. ipykernel keeps it in a
        context variable, which other threads do not see.

    Args:
      kernel: The kernel of this ipyparallel engine.
      process_id: Returns the number of this process in the launch plan.
    """

    def __init__(self, kernel: Any, process_id: Callable[[], int]) -> None:
        self.request: dict[str, Any] | None = None
        self._kernel = kernel
        self._process_id = process_id
        self._reports = Encoder()

    def publish(self, message: object) -> None:
        """Send a message of `nbdist.contract.iopub` as output of the cell that runs or ran last."""
        ident = f"engine.{self._kernel.engine_id}.step"
        self._send(*content_of(message), parent=self.request, ident=ident)

    def report(self, report: Report) -> None:
        """Send a report of the probe to every kernel that takes part."""
        self._to_all(TYPES[Report], self._reports.encode(report))

    def broadcast(self, message: object) -> None:
        """Send a message of `nbdist.contract.iopub` to every kernel that takes part, whatever it has asked for."""
        self._to_all(*content_of(message))

    def _to_all(self, kind: str, facts: dict[str, Any]) -> None:
        self._send(kind, facts, parent=None, ident=f"nbdist.{self._process_id()}")

    def echo(self, kept: Kept) -> None:
        """Send the kept output of cells again, for kernels that did not listen when it was shown."""
        process_id = self._process_id()
        echo = content_of(Echo(process_id=process_id, kept=kept))
        self._send(*echo, parent=None, ident=f"echo.{process_id}")

    def text(self, text: str) -> None:
        """Show text that was written past Python to the process's own descriptors."""
        if self.request is None:
            return  # written while the process started: the text is in its log, and shown if the process ends
        ident = f"engine.{self._kernel.engine_id}.stderr"
        self._send("stream", {"name": "stderr", "text": text}, parent=self.request, ident=ident)

    def _send(
        self, kind: str, facts: dict[str, Any], *, parent: dict[str, Any] | None, ident: str
    ) -> None:
        self._kernel.session.send(
            self._kernel.iopub_socket, kind, content=facts, parent=parent, ident=ident.encode()
        )


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


PAST_CELLS = 200
"""Most ends of cells that are kept, the newest ones."""


class Resident:
    """The state of one engine, kept as an attribute of the engine's kernel."""

    ATTRIBUTE = "nbdist_resident"

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.kernel = shell.kernel
        self.pid = os.getpid()
        self.host = socket.gethostname()
        self.process_id = -1
        self.cell = CurrentCell()
        self.probe: Probe | None = None
        self._agreement: AgreementFacts | None = None
        self.publisher = Publisher(self.kernel, lambda: self.process_id)
        self.descriptors = Descriptors(self.publisher.text)
        self.echo = KeptOutput(self.kernel.iopub_socket, self.descriptors.flush)
        self.interrupts = InterruptHandler()
        self.framework = Framework()
        self.reserved = ReservedPorts()
        self.stop = AgreedStop(lambda: self.framework.store(), self.cell, lambda: self.process_id)
        self._owners = CodeOwners(frameworks())
        self.lines = InputLines(
            self._publish_prompt, where=self._where, leaving=lambda: self.interrupts.leaving
        )
        self.ends: deque[CellEnd] = deque(maxlen=PAST_CELLS)
        self.step: Steps | None = None
        self.repair: Repairs | None = None
        self.moving = Moving()
        self.copies = CopyStore()
        self.state: ProcessState | None = None
        self.hooks: dict[str, Callable[[], object]] = {}
        self._shows_widgets = False
        self._began: str | None = None
        self._lowest = 0

    @classmethod
    def of(cls) -> Resident:
        """Return the state of this engine; make it on first use.

        Raises:
          SessionError: This process is not an IPython engine.
        """
        shell = _shell()
        if not hasattr(shell, "kernel"):
            raise SessionError("nbdist's calls run on an ipyparallel engine; this is none.")
        found = cls.there() or cls(shell)
        setattr(shell.kernel, cls.ATTRIBUTE, found)
        return found

    @classmethod
    def there(cls) -> Resident | None:
        """Return the state of this engine; None if this process is no engine, or nbdist has not used it yet."""
        return getattr(getattr(_shell(), "kernel", None), cls.ATTRIBUTE, None)

    def checkpoint(self) -> None:
        """Leave the cell here if all processes leave it before this step (`nbdist.checkpoint`)."""
        running = self.cell.running
        if threading.current_thread() is threading.main_thread() and running is not None:
            self.stop.step(running.targets)
            self.interrupts.step(self.stop.leave)

    def settle(
        self,
        *,
        process_id: int | None,
        framework_name: str,
        interruptible: Callable[[str | None], bool],
    ) -> None:
        """Make the engine ready for cells; a second call changes nothing.

        Args:
          process_id: The number of the process in the launch plan; None to take it from `NBDIST_PROCESS_ID`.
          framework_name: The framework that the session computes with.
          interruptible: Returns whether a request that is no cell may be interrupted; gets its label.
        """
        if self.probe is not None:
            return
        if process_id is None:
            process_id = int(os.environ["NBDIST_PROCESS_ID"])
        self.process_id = process_id
        self.framework = framework_named(framework_name)
        self.echo.install()
        NotebookCells(
            self.shell,
            self.cell,
            before=self._remember,
            ended=self._cell_ended,
            admit=lambda label: self.admit(label.run, computes=label.computes),
        ).install()
        self.cell.at_edges(self._note_end)
        close_gaps(
            self.shell,
            wanted=lambda: self.lines.wanted,
            ask=self.lines.ask,
            widgets=lambda: self._shows_widgets,
        )
        install_debugger(self.shell, self.lines, self.interrupts, self._cell_of)
        for one in frameworks():
            if one.install is not None:
                one.install(self.shell)
        name_cells(self._cell_of)
        self.interrupts.install(self.kernel, self.shell, interruptible=interruptible)
        report_withdrawals(self.kernel)
        self.descriptors.start()
        loop = running_loop()
        self.probe = Probe(
            publish=self.publisher.report,
            namespace=lambda: self.shell.user_ns,
            process_id=process_id,
            host=self.host,
            main_thread=threading.main_thread().ident or 0,
            cell=self.cell,
            frameworks=frameworks(),
            owners=self._owners,
            values=small_values,
            on_main=None if loop is None else loop.call_soon_threadsafe,
            resting=lambda: self.repair is None,
            beside=lambda: {} if self.state is None else self.state.streams(),
        )
        self.probe.start()
        self.state = ProcessState(self.shell)

    @property
    def where(self) -> str:
        """The name of this process in texts for people."""
        return on_host_text([self.process_id or 0], self.host)

    @property
    def user_names(self) -> dict[str, Any]:
        """The user's names with their values, in the order in which they were first set."""
        return users(self.shell.user_ns, self.shell.user_ns_hidden)

    @property
    def folder(self) -> Path:
        """The session's private folder on this host; the temporary folder if there is none."""
        return of_this_process() or Path(tempfile.gettempdir())

    def call_hooks(self) -> list[str]:
        """Call the user's hooks on a process that has replaced another; return a text for each failure."""
        failed = []
        for name, hook in self.hooks.items():
            try:
                hook()
            except Exception as error:  # noqa: BLE001 - the user's own
                failed.append(f"{name} has failed on {self.where}: {error_text(error)}")
        return failed

    def _cell_ended(self, label: CellLabel | None, failed: bool) -> None:
        self.descriptors.flush()
        if self.step is not None and label is not None:
            self.step.end_cell(label.run, failed=failed, compared=label.compared)

    def refuse_below(self, number: int) -> None:
        """Refuse requests with a lower number from now on: they are from an earlier kernel."""
        self._lowest = max(self._lowest, number)

    def admit(self, number: int, *, computes: bool = True) -> None:
        """Refuse a request out of order, and one that computes before an earlier failure is settled.

        Args:
          number: The number of the request; it rises with every request, also across kernels.
          computes: Whether the request may use a device.

        Raises:
          SessionError: A later request was admitted before.
          NotRunError: An earlier cell has failed here, and its kernel has not yet made sure that the processes are
            in step.
        """
        if number < self._lowest:
            raise SessionError(
                f"not run: it came to {self.where} after another kernel of this session had taken its turn. Run "
                "it again."
            )
        self._lowest = number
        if computes and self.step is not None and self.step.unsettled:
            raise NotRunError(
                f"not run: an earlier cell has failed on {self.where}, and the "
                "processes were not yet in step again. Run this cell again."
            )

    def agreement(self) -> AgreementFacts:
        """Return the source of the facts that must be equal on all processes; made on first use."""
        if self._agreement is None:
            from nbdist.engine.agreement import AgreementFacts

            self._agreement = AgreementFacts(self.shell, frameworks())
        return self._agreement

    def publish_step(self, step: CellStep) -> None:
        """Publish whether this process is in step with the others at the end of a cell."""
        self.publisher.publish(step)

    def _publish_prompt(self, prompt: Prompt | None) -> None:
        """Show a debugger's prompt after all output so far; with None, say that the prompt is over."""
        self.descriptors.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        self.publisher.publish(Prompting(prompt=prompt))

    def _where(self) -> Where | None:
        running = self.cell.running
        if running is None:
            return None
        stack = stack_reader(sys.version_info[:3])(threading.get_ident())
        at = place(stack, running, self._owners)
        return Where(running.number, at.line, at.source)

    def code_name(self, filename: str) -> tuple[str, str] | None:
        """Return what tracebacks call the file of a cell, as IPython does; None for any other file."""
        named: tuple[str, str] | None = self.shell.compile.format_code_name(filename)
        return named

    def _cell_of(self, filename: str) -> int | None:
        """Return the number of the cell that was compiled under this file name; None for any other file."""
        found = re.fullmatch(r"In\[(\d+)\]", (self.code_name(filename) or ("", ""))[1])
        return int(found[1]) if found else None

    def _note_end(self) -> None:
        """Note the request when a cell begins, and how the cell went when it ends."""
        request = (self.publisher.request or {}).get("header", {}).get("msg_id")
        if request is None or self._began != request:
            self._began = request
            return
        self.ends.append(CellEnd(request=request, error=self.cell.error, time=time.time()))
        self._began = None

    def _remember(self, request: dict[str, Any], label: CellLabel) -> None:
        self.descriptors.flush()  # text written until now is output of the cell before
        self.publisher.request = request
        self._shows_widgets = label.widgets
        if self.step is not None:
            self.step.begin_cell(
                label.run,
                label.targets,
                self.shell.user_ns,
                in_step=label.in_step,
            )
