"""A notebook without a browser: a real Jupyter kernel, and its outputs as a front end would hold them."""

from __future__ import annotations

import contextlib
import html
import os
import re
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any, Self

import psutil
from jupyter_client.manager import KernelManager

from tests.waiting import has_ended

GONE_SECONDS = 30.0
LOST_PORT = re.compile(r"Kernel (died before replying|didn't respond in)")
"""A port is chosen for a kernel before the kernel has it, and may be given to another process in between; with
many kernels beside each other that happens, and a second try is another port. One that then tries to end,
and hangs in ZeroMQ's `Context.term`, does not respond."""

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def folded(markup: str) -> str:
    """Return the text of folded details; empty for any other markup."""
    found = re.fullmatch(r"<details>.*?<pre>(.*)</pre></details>", markup, re.DOTALL)
    return "" if found is None else html.unescape(found[1])


@dataclass
class Output:
    """What one cell shows; displays with an id are replaced in place."""

    shown: list[tuple[str | None, dict[str, Any]]] = field(default_factory=list)
    error: tuple[str, str, str] | None = None
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """All text in the order of the screen, colours removed; not what is folded."""
        shown = (data for _, data in self.shown if not folded(data.get("text/html", "")))
        parts = [str(data.get("text/plain", "")) for data in shown]
        return ANSI.sub("", "\n".join(part.rstrip("\n") for part in parts if part.strip()))

    @property
    def traceback(self) -> str:
        """The error as it is shown, colours removed; empty when there is none."""
        return ANSI.sub("", self.error[2]) if self.error else ""

    @property
    def details(self) -> str:
        """The folded details below a notice; empty for none."""
        return "\n".join(filter(None, map(folded, self.mime("text/html"))))

    @property
    def told(self) -> str:
        """The error with what is folded below it."""
        return f"{self.traceback}\n{self.details}"

    def names(self, *values: str) -> None:
        """Its error must name each of `values`: its class, numbers, names."""
        assert self.error is not None, f"did not fail:\n{self.text}"
        said = f"{self.error[0]}: {self.told}"
        assert not (missing := [one for one in values if one not in said]), f"{missing}:\n{said}"

    def mime(self, kind: str) -> list[Any]:
        """All data of one mime type."""
        return [data[kind] for _, data in self.shown if kind in data]


class Notebook:
    """One kernel; also a context manager that ends it."""

    def __init__(self, *, folder: Path, environment: dict[str, str] | None = None) -> None:
        # A kernel is to behave as a user's: without pytest's variables, and without the back end that some tests
        # have chosen for their own process.
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith("PYTEST_") and k != "KERAS_BACKEND"
        }
        env = {**kept, "IPYTHONDIR": str(folder / "ipython"), **(environment or {})}
        try:
            self._start(env, folder)
        except RuntimeError as error:
            if not LOST_PORT.search(str(error)):
                raise
            self.client.stop_channels()
            if self.manager.is_alive():
                self.manager.shutdown_kernel(now=True)
            # Else a socket of the manager stays until its context is collected, in the middle of another test.
            self.manager.cleanup_resources()
            self._start(env, folder)
        self._displays: dict[str, list[Output]] = {}
        self._outputs: dict[str, Output] = {}

    def _start(self, env: dict[str, str], folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=env, cwd=str(folder))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def send(self, code: str, *, person: bool = False) -> str:
        """Starts a cell; the answer is for `collect`. With a `person` it may ask for lines, as a page does."""
        if not person:
            return str(self.client.execute(code, allow_stdin=False))
        content = {"code": code, "allow_stdin": True, "store_history": True}
        metadata = {"cellId": uuid.uuid4().hex}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def asked(self, request: str, *, timeout_s: float = 90.0) -> str:
        """Waits until a cell asks for a line; the prompt, colours removed."""
        output = self._outputs.setdefault(request, Output())
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                message = self.client.get_stdin_msg(timeout=0.05)
            except Empty:
                while self.client.iopub_channel.msg_ready():
                    reports = self.client.get_iopub_msg(timeout=1.0)
                    of = reports["parent_header"].get("msg_id")
                    ended = of in self._outputs and self._take(reports, self._outputs[of])
                    assert not (ended and of == request), (
                        f"asked nothing:\n{output.text}\n{output.error}"
                    )
                continue
            assert message["msg_type"] == "input_request"
            return ANSI.sub("", str(message["content"]["prompt"]))
        raise AssertionError(f"asked nothing in {timeout_s} s:\n{output.text}")

    def types(self, line: str) -> None:
        """Types a line where one is asked for."""
        self.client.input(line)

    def run(self, code: str, *, timeout_s: float = 90.0) -> Output:
        """Runs a cell to its end."""
        return self.collect(self.send(code), timeout_s=timeout_s)

    def good(self, code: str, *, timeout_s: float = 90.0) -> Output:
        """As `run`, and the cell must not fail."""
        output = self.run(code, timeout_s=timeout_s)
        assert output.error is None, output.traceback
        return output

    def bad(self, code: str, *, timeout_s: float = 90.0) -> Output:
        """As `run`, and the cell must fail."""
        output = self.run(code, timeout_s=timeout_s)
        assert output.error is not None, f"did not fail:\n{output.text}"
        return output

    def shows(self, code: str, *values: str, timeout_s: float = 90.0) -> str:
        """The text of a cell that must not fail; each of `values` must be in it."""
        text = self.good(code, timeout_s=timeout_s).text
        assert not (missing := [one for one in values if one not in text]), f"{missing}:\n{text}"
        return text

    def fails(self, code: str, *values: str, timeout_s: float = 90.0) -> Output:
        """As `bad`; each of `values`, such as the error's class, must be in the error."""
        output = self.bad(code, timeout_s=timeout_s)
        output.names(*values)
        return output

    def follow(self, code: str, until: str, *, person: bool = False) -> tuple[str, Output]:
        """Starts a cell and hears it until its text matches; for `collect`, and what it shows."""
        request = self.send(code, person=person)
        return request, self.collect(request, until=until)

    def background(self, code: str, until: str, *, person: bool = False) -> tuple[str, Output]:
        """As `follow`, of a cell that is sent with `--no-wait`: its output comes after its end, too."""
        request = self.send(code, person=person)
        output = self.collect(request)
        assert output.error is None, output.traceback
        return request, self.collect(request, until=until)

    def stopped(self, request: str, *, timeout_s: float = 90.0) -> Output:
        """What a cell shows to its end after the stop button is pressed in it."""
        self.interrupt()
        output = self.collect(request, timeout_s=timeout_s)
        output.names("KeyboardInterrupt")
        return output

    def collect(
        self,
        request: str,
        *,
        timeout_s: float = 90.0,
        until: str | None = None,
        output: Output | None = None,
    ) -> Output:
        """Hears a cell to its end, or until its text matches the pattern `until`.

        What comes for a cell after its end is added to its output, as in a front end.
        """
        output = self._outputs.setdefault(request, output or Output())
        started = time.monotonic()
        while not (until and re.search(until, output.text)):
            left = timeout_s - (time.monotonic() - started)
            assert left > 0, f"still running after {timeout_s} s:\n{output.text}\n{self._stacks()}"
            try:
                message = self.client.get_iopub_msg(timeout=min(left, 1.0))
            except Empty:
                continue
            parent = message["parent_header"].get("msg_id")
            if parent != request:
                if parent in self._outputs:
                    self._take(message, self._outputs[parent])
                continue
            output.seconds = time.monotonic() - started
            if self._take(message, output):
                break
        return output

    def _stacks(self) -> str:
        """Where the kernel and its processes are, for whoever reads why a test has failed."""
        pids = [self.process.pid, *(one.pid for one in self.descendants())]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [str(Path(sys.executable).with_name("py-spy")), "dump", "--pid"]
            found = [
                subprocess.run([*command, str(pid)], capture_output=True, text=True, timeout=20)
                for pid in pids
            ]
            return "\n".join(one.stdout or one.stderr for one in found)
        return "py-spy could not read where it is"

    def _take(self, message: dict[str, Any], output: Output) -> bool:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            _add_stream(output, content["name"], content["text"])
        elif kind in ("display_data", "execute_result"):
            display_id = (content.get("transient") or {}).get("display_id")
            output.shown.append((display_id, content["data"]))
            if display_id:
                self._displays.setdefault(display_id, []).append(output)
        elif kind == "update_display_data":
            display_id = content["transient"]["display_id"]
            for other in self._displays.get(display_id, ()):
                other.shown = [
                    (i, content["data"]) if i == display_id else (i, d) for i, d in other.shown
                ]
        elif kind == "error":
            output.error = (content["ename"], content["evalue"], "\n".join(content["traceback"]))
        return bool(kind == "status" and content["execution_state"] == "idle")

    def complete(self, code: str, cursor: int | None = None) -> tuple[list[str], float]:
        """Tab completions, and how many seconds they took."""
        started = time.monotonic()
        reply = self.client.complete(code, cursor, reply=True, timeout=20)
        return reply["content"]["matches"], time.monotonic() - started

    def inspect(self, code: str, cursor: int | None = None) -> str:
        """What Shift-Tab shows."""
        reply = self.client.inspect(code, cursor, reply=True, timeout=20)
        return ANSI.sub("", reply["content"]["data"].get("text/plain", ""))

    def ask_view(self, request: dict[str, Any], *, timeout_s: float = 30.0) -> dict[str, Any]:
        """What the kernel answers where the side panel asks for something."""
        comm = uuid.uuid4().hex
        content = {"comm_id": comm, "target_name": "nbdist", "data": request}
        self.client.shell_channel.send(self.client.session.msg("comm_open", content))
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(Empty):
                message = self.client.get_iopub_msg(timeout=1)
                data = message["content"].get("data")
                if message["msg_type"] == "comm_msg" and data.get("type") == request["type"]:
                    return dict(data)
        raise TimeoutError(f"{request} was not answered within {timeout_s} s")

    def interrupt(self) -> None:
        """The stop button."""
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        """The restart button."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=False)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @property
    def process(self) -> psutil.Process:
        """The kernel's process."""
        return psutil.Process(self.manager.provisioner.pid)

    def descendants(self) -> list[psutil.Process]:
        """All processes below the kernel, the engines' parents among them."""
        return self.process.children(recursive=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()


def gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that do not end within half a minute; an empty list is what a test wants."""
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    return [p for p in alive if not has_ended(p)]


def _add_stream(output: Output, name: str, text: str) -> None:
    """What follows in the same stream is one text with what was there: a line may come in two messages."""
    last = output.shown[-1][1] if output.shown else {}
    if last.get("stream") == name:
        last["text/plain"] += text
    else:
        output.shown.append((None, {"text/plain": text, "stream": name}))
