"""A shell in a terminal, with IPython as a job of it: what Ctrl-Z and `fg` do is the shell's and the kernel's."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Self

import pexpect

from tests.integration.notebook import ANSI
from tests.waiting import wait_for

TIMEOUT_SECONDS = 90


class Terminal:
    """A person at an interactive shell in which IPython runs; also a context manager that ends both."""

    def __init__(self, folder: Path) -> None:
        self.shell = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile", "-i"],
            cwd=str(folder),
            encoding="utf-8",
            timeout=TIMEOUT_SECONDS,
            dimensions=(60, 250),
        )
        self._number = 0
        self.shell.sendline("PS1='shell''> '")
        self.shell.expect("shell> ")
        self.shell.sendline(
            f"{sys.executable} -m IPython --simple-prompt --no-banner --colors=NoColor"
        )
        self.prompt()

    def prompt(self) -> str:
        """Waits for IPython's next prompt; answers what came before it."""
        self._number += 1
        self.shell.expect_exact(f"In [{self._number}]: ")
        return ANSI.sub("", self.shell.before or "")

    def line(self, text: str) -> str:
        """Runs a line, and answers what it shows, which may be no error."""
        self.shell.sendline(text)
        shown = self.prompt()
        assert "Error" not in shown, shown
        return shown

    def stop(self) -> None:
        """Ctrl-Z; returns when the shell is back."""
        self.shell.sendcontrol("z")
        self.shell.expect("Stopped")
        self.shell.expect("shell> ")

    def go_on(self, *, at_prompt: bool) -> None:
        """`fg`; where IPython waits for a line it is asked to say so again."""
        self.shell.sendline("fg")
        if at_prompt:
            self.shell.sendline("")
            self.shell.expect_exact(f"In [{self._number}]: ")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # It passes the hangup on to its jobs. pexpect would wait for a tenth of a second only.
        self.shell.kill(signal.SIGHUP)
        wait_for(lambda: not self.shell.isalive())
        self.shell.close()
