"""A kernel that is stopped in its terminal for longer than hosts may be silent, and goes on."""

from __future__ import annotations

import time
from pathlib import Path

from tests.hosts.left import Left
from tests.hosts.terminal import Terminal
from tests.testbed.hosts import TestBed

LOST_SECONDS = 3.0
SHORT = (
    "from nbdist.agent import kernel_link as pauses; from nbdist.launch.start import pool; "
    f"pool.LOST_SECONDS = {LOST_SECONDS}; pauses.PAUSE_SECONDS = 1.5"
)
"""A tenth of the real limits."""

LONGER = 2 * LOST_SECONDS


def test_ctrl_z_and_fg_cost_a_session_nothing_at_the_prompt_and_in_a_cell(
    hosts: TestBed, left: Left
) -> None:
    with Terminal(Path.cwd()) as terminal:
        terminal.line(SHORT)
        terminal.line(
            f"import nbdist; s = nbdist.start(hosts='h1,h2', ssh_config={str(hosts.ssh_config)!r})"
        )
        terminal.line("s.run('import time; kept = 42')")
        terminal.stop()
        time.sleep(LONGER)
        terminal.go_on(at_prompt=True)
        assert "processes 0, 1   43" in terminal.line("s.run('print(kept + 1)')")

        terminal.shell.sendline("s.run('print(\"begun\"); time.sleep(4); print(kept + 2)')")
        terminal.shell.expect("0, 1.*begun")
        terminal.stop()
        time.sleep(LONGER)
        terminal.go_on(at_prompt=False)
        assert "processes 0, 1   44" in terminal.prompt()
        said = terminal.line("print([n.title for n in s.snapshot().notices], s.out_of_step)")
        assert "[] False" in said
        terminal.line("s.shutdown()")
    left.nothing()
