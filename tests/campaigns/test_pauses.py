"""Pauses longer than any limit on silence: a stopped kernel, and a machine on which everything stops.

The limits are the real ones, so that these take minutes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from nbdist.launch.start.pool import LOST_SECONDS
from tests.hosts.left import Left
from tests.integration.notebook import Notebook
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.hosts import TestBed

LATER_SECONDS = LOST_SECONDS + 10.0
ALL_SECONDS = float(os.environ.get("NBDIST_PAUSE_SECONDS", "65"))
"""Longer than the minute for which engines may be silent in many a set-up of ipyparallel."""

CHECK = "%%dist\nassert kept == 42\nprint('sum', float(total(x)))"
CONTROLLER = (
    "import nbdist\nfrom nbdist.contract.orders import CONTROLLER\n"
    "print(nbdist.current()._life.engines.cluster.agents.home.pids[CONTROLLER])"
)
TITLES = "import nbdist\ns = nbdist.current()\nprint([n.title for n in s.snapshot().notices], s.out_of_step)"


def pause(processes: Iterable[psutil.Process], seconds: float) -> None:
    """Stops processes for so long, the last first, and has them go on in the same order."""
    stopped = list(processes)[::-1]
    try:
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        for process in stopped:
            process.send_signal(signal.SIGCONT)


def goes_on(notebook: Notebook, total: float) -> None:
    """The session is whole: variables, collectives, and nothing to complain of."""
    assert f"sum {total}" in notebook.good(CHECK).text
    assert notebook.good(TITLES).text == "[] False"


@pytest.mark.timeout(300)
def test_a_kernel_that_is_stopped_for_longer_than_hosts_may_be_silent_gives_up_none(
    hosts: TestBed, left: Left, tmp_path: Path
) -> None:
    # The hosts have this folder, too, which a temporary one they do not; what IPython keeps is of this machine.
    files = {"IPYTHONDIR": str(tmp_path / "ipython")}
    with Notebook(folder=Path.cwd(), environment=files) as notebook:
        notebook.good("%load_ext nbdist")
        notebook.good(f"%dist_init --hosts h1,h2 --ssh-config {hosts.ssh_config}")
        notebook.good(f"%%dist\n{COLLECTIVE}")
        # One connection goes on, and one stops as well: nothing of it is read meanwhile.
        ssh = [p for p in notebook.descendants() if p.name() == "ssh"]
        assert len(ssh) == 2
        pause([notebook.process, ssh[0]], LATER_SECONDS)
        goes_on(notebook, 24.0)
        notebook.good("%dist_shutdown")
    left.nothing()


@pytest.mark.timeout(300 + ALL_SECONDS)
def test_where_everything_stops_but_the_controller_all_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    with Notebook(folder=tmp_path) as notebook:
        notebook.good("%load_ext nbdist")
        notebook.good("%dist_init -n 3 --devices-per-process 2 --platform cpu")
        notebook.good(f"%%dist\n{COLLECTIVE}")
        # It hears nothing of the engines all the while, as no other process could.
        controller = int(notebook.good(CONTROLLER).text)
        everything = [notebook.process, *notebook.descendants()]
        others = [p for p in everything if controller not in (p.pid, p.ppid())]
        assert len(others) < len(everything)
        pause(others, ALL_SECONDS)
        goes_on(notebook, 24.0)
