"""Starting, and everything that can be wrong with it."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import nbdist
from nbdist.errors import LaunchError, ProcessError
from nbdist.machine import ports
from tests.builders.cells import SPREAD
from tests.integration.conftest import START
from tests.integration.notebook import Notebook, gone
from tests.variants import cases

SETUP = SPREAD
COUNTS = "import jax\nseen = jax.process_count(), jax.process_index()"


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def agents_of(notebook: Notebook) -> list[psutil.Process]:
    return [p for p in notebook.descendants() if "nbdist.agent" in p.cmdline()]


def not_found(notebook: Notebook) -> None:
    """The magics are not there."""
    shown = notebook.run("%%dist\n1")
    assert "not found" in shown.text + shown.traceback


def test_closing_line_names_processes_devices_and_seconds(renewed: Notebook) -> None:
    closing = ("2 processes on this machine", "4 cpu devices", "(chosen automatically)", "ready in")
    renewed.shows(START.replace(" --platform cpu", ""), *closing)
    again = renewed.bad("%dist_init -n 2 --platform cpu").traceback
    assert "nothing has been changed: 2 processes" in again
    assert "%dist_init --restart" in again
    assert agents_of(renewed)


def test_the_controller_listens_only_on_ports_that_were_kept_for_it(renewed: Notebook) -> None:
    renewed.good(START)
    folder = renewed.good(
        "import nbdist\nprint(nbdist.current()._life.engines.cluster.folder)"
    ).text
    named = {
        key: port
        for path in Path(folder.strip(), "security").glob("ipcontroller-*.json")
        for key, port in json.loads(path.read_text()).items()
        if isinstance(port, int)
    }
    assert {"iopub", "mux", "registration"} <= named.keys()
    # Else ipyparallel has chosen some by itself: `PORTS` are too few.
    assert max(named.values()) < ports._first_given_port()


def sockets(process: psutil.Process) -> set[str]:
    """What the kernel calls the sockets that a process has open (proc(5))."""
    found = set()
    for one in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(one.readlink()))
    return {name for name in found if name.startswith("socket:")}


def test_no_process_keeps_what_its_agent_has_open_to_others(renewed: Notebook) -> None:
    renewed.good(START)
    (agent,) = (p for p in agents_of(renewed) if p.ppid() == renewed.process.pid)
    started = agent.children(recursive=True)
    assert len(started) > 2, "processes, and the controller's"
    reserved = sockets(agent)
    assert reserved
    for process in started:
        assert reserved.isdisjoint(sockets(process)), " ".join(process.cmdline())


@pytest.mark.parametrize(
    "cell", ["%%dist\n1", "%dist_status", "%dist_mesh", "%dist_pull x", "%dist_shutdown"]
)
def test_cells_before_a_session_say_what_to_do(renewed: Notebook, cell: str) -> None:
    renewed.fails(cell, "%dist_init starts one")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-n 0", "must be 1 or more"),
        ("-n two", "invalid int value"),
        ("--devices 3", "has no option '--devices'"),
        ("--platform gpu", "no GPU was found"),
        ("--env =1", "expected NAME=VALUE"),
        ("--env NOTHING", "no such variable"),
        ("--sync nowhere", "no such file or folder"),
        ("--framework torch", "invalid choice"),
        ("--grace -1", "must be 0 or more"),
    ],
)
def test_bad_options_start_nothing(renewed: Notebook, line: str, said: str) -> None:
    renewed.fails(f"%dist_init {line}", said)
    assert not [p for p in renewed.descendants() if "nbdist" in " ".join(p.cmdline())]


@pytest.mark.parametrize("magic", ["init", "mesh", "pull", "push", "mode", "status"])
def test_each_magic_has_help(renewed: Notebook, magic: str) -> None:
    renewed.shows(f"%dist_{magic} --help", f"usage: %dist_{magic}")


@pytest.mark.parametrize("keep", cases("", " --keep"))
def test_a_session_is_there_again_after_a_reload_and_goes_on_while_nbdist_is_not_loaded(
    fresh: Notebook, keep: str
) -> None:
    fresh.shows("%load_ext nbdist", "already loaded")
    fresh.good("%reload_ext nbdist")
    fresh.shows("%unload_ext nbdist", "nbdist unloaded")
    not_found(fresh)
    fresh.good("%load_ext nbdist")
    fresh.good(START + keep)
    engines = [p for p in fresh.descendants() if "nbdist" in " ".join(p.cmdline())]
    assert engines
    fresh.good("%%dist\nhere = 41")
    fresh.good("%dist_mode -e")
    fresh.shows("%reload_ext nbdist", "the session goes on")
    assert fresh.good("print(here + 1)").text.strip().endswith("42"), "the mode as well"
    fresh.good("%unload_ext nbdist")
    not_found(fresh)
    fresh.shows("import nbdist\nprint(nbdist.current().describe())", "2 processes")
    fresh.good("%load_ext nbdist")
    assert fresh.good("%%dist\nprint(here + 1)").text.strip().endswith("42")
    fresh.good("%dist_shutdown")
    assert not gone(engines)


STRAY = {
    "SLURM_JOB_ID": "1",
    "SLURM_STEP_NODELIST": "elsewhere[1-9]",
    "SLURM_NTASKS": "64",
    "SLURM_PROCID": "17",
    "SLURM_LOCALID": "3",
    "SLURM_STEP_NUM_TASKS": "64",
    "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.9.8.7:1",
    "OMPI_COMM_WORLD_SIZE": "64",
    "OMPI_COMM_WORLD_RANK": "17",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
}


@pytest.fixture(scope="module")
def with_variables() -> Iterator[nbdist.Session]:
    """Two processes with variables of the user's, and with some that a scheduler has left behind."""
    own = {"JAX_ENABLE_X64": "1", "MY_OWN": "a=b"}
    with nbdist.start(2, platform="cpu", environment={**own, **STRAY}) as session:
        yield session


def test_environment_is_in_place_before_jax_is_imported(with_variables: nbdist.Session) -> None:
    with_variables.run(
        "import jax, os\nx64 = bool(jax.config.jax_enable_x64)\nown = os.environ['MY_OWN']"
    )
    assert with_variables.pull("x64") is True
    assert with_variables.pull("own", on="1") == "a=b"


def test_stray_scheduler_variables_do_not_mislead(with_variables: nbdist.Session) -> None:
    with_variables.run(COUNTS)
    assert with_variables.pull("seen", each=True) == {0: (2, 0), 1: (2, 1)}


def test_j4_a_cluster_that_jax_would_detect_is_shown_and_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("JOB_ID", "STEP_NODELIST", "NTASKS", "PROCID", "LOCALID"):
        monkeypatch.setenv(f"SLURM_{name}", STRAY[f"SLURM_{name}"])
    with nbdist.start(2, platform="cpu") as session:
        (said,) = [one for one in session.remarks if "SLURM" in one]
        assert "SLURM_JOB_ID=1" in said
        assert "switches its detection off" in said
        session.run(COUNTS)
        assert session.pull("seen", on="1") == (2, 1)


def test_every_argument_arrives_in_initialize() -> None:
    with nbdist.start(
        2,
        platform="cpu",
        devices_per_process=2,
        local_device_ids=[(0,), (1,)],
        partition_index=[0, 1],
        initialization_timeout_s=60,
        heartbeat_timeout_s=50,
        shutdown_timeout_s=5,
    ) as session:
        session.run(
            "import jax\nfrom jax._src.distributed import global_state as state\n"
            "seen = (jax.config.values['jax_cuda_visible_devices'], state.partition_index, state.process_id,"
            " state.num_processes, state.coordinator_address.split(':')[0])"
        )
        assert session.pull("seen", on="0") == ("0", 0, 0, 2, "127.0.0.1")
        assert session.pull("seen", on="1") == ("1", 1, 1, 2, "127.0.0.1")


def test_no_initialize_leaves_it_to_the_cells() -> None:
    with nbdist.start(2, platform="cpu", initialize=False) as session:
        assert "not initialized" in session.describe()
        up = "up = xla_bridge.backends_are_initialized()"
        session.run(f"import jax\nfrom jax._src import xla_bridge\n{up}")
        assert session.pull("up") is False


def test_a_second_initialize_in_a_cell_is_jaxs_own_error(session: nbdist.Session) -> None:
    with pytest.raises(ProcessError, match="RuntimeError"):
        session.run("import jax\njax.distributed.initialize('127.0.0.1:1', 2, 0)")


def test_spawned_engines_work_like_forked_ones_and_find_the_modules_that_are_named(
    tmp_path: Path,
) -> None:
    module = tmp_path / "beside_the_notebook.py"
    module.write_text("width = 1\n")
    with nbdist.start(2, platform="cpu", start_method="spawn", sync=str(module)) as session:
        session.run("import jax, beside_the_notebook\nn = jax.device_count()")
        assert session.pull("n") == 2
        module.write_text("width = 2\n")
        reported = session.sync_files()
        assert reported.old == {"beside_the_notebook": (0, 1)}
        assert reported.text().startswith("this machine   1 file")


def test_processes_draw_different_random_numbers(session: nbdist.Session) -> None:
    session.run("import numpy as np, random\ndrawn = (np.random.rand(), random.random())")
    numpys, pythons = zip(*session.pull("drawn", each=True).values(), strict=True)
    assert len(set(numpys)) == len(set(pythons)) == 2


KILLS = """
import os, threading, time
def kill():
    if os.environ.get("NBDIST_PROCESS_ID") == "1":
        print("last words", flush=True)
        os.kill(os.getpid(), 9)
os.register_at_fork(after_in_child=lambda: threading.Timer(0.2, kill).start())
"""
"""For the parent of the processes: the fork of process 1 dies at once."""


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "jax/__init__.py",
            "raise ImportError('jax is broken here')",
            r"processes 0, 1 .*cannot import jax: ImportError: jax is broken here",
        ),
        ("sitecustomize.py", KILLS, r"Process 1 .* killed by signal 9"),
    ],
)
def test_a_start_that_a_process_does_not_survive_names_it_and_leaves_nothing(
    tmp_path: Path, path: str, text: str, said: str
) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    before = children()
    with pytest.raises(LaunchError, match=said):
        nbdist.start(2, platform="cpu", environment={"PYTHONPATH": str(tmp_path)})
    assert children() == before


def test_interrupt_during_start_leaves_nothing(renewed: Notebook) -> None:
    request, _ = renewed.follow(START, "starting|connected")
    started = renewed.descendants()
    renewed.stopped(request)
    assert not gone(started)
    renewed.good(START)


def test_an_interrupt_while_the_started_session_is_shown_leaves_nothing(renewed: Notebook) -> None:
    # As if the stop button had been pressed after the last process has joined, before the picture is there.
    renewed.good(
        "from nbdist.view.picture import Picture\n"
        "shown = Picture.show\n"
        "def interrupted(*_, **__): raise KeyboardInterrupt\n"
        "Picture.show = interrupted"
    )
    renewed.fails(START, "KeyboardInterrupt")
    renewed.good("Picture.show = shown")
    assert renewed.descendants() == []
    renewed.fails("%%dist\n1", "%dist_init starts one")
    renewed.good(START)


INTERRUPTED = """
import _thread, threading
from nbdist.launch.start.pool import AgentPool
stop, begun = AgentPool.stop, threading.Event()
def slow(self): begun.set(); import time; time.sleep(1); stop(self)
AgentPool.stop = slow
def press(): begun.wait(); _thread.interrupt_main()
threading.Thread(target=press).start()
"""


@pytest.mark.parametrize("interrupted", cases(False, True), ids=["to its end", "interrupted"])
def test_a_shutdown_leaves_nothing_and_another_session_can_be_started(
    renewed: Notebook, interrupted: bool
) -> None:
    renewed.good(START)
    started = renewed.descendants()
    assert len(started) >= 4
    if interrupted:
        renewed.good(INTERRUPTED)
        renewed.fails("%dist_shutdown", "KeyboardInterrupt")
        renewed.good("AgentPool.stop = stop")
    else:
        renewed.good("%dist_shutdown")
    assert not gone(started)
    renewed.fails("%%dist\n1", "%dist_init starts one")
    renewed.good(START)


FORKED = """
import os, time, warnings
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    time.sleep(100)
    os._exit(0)
print(child)
"""


@pytest.mark.parametrize("how", cases("SIGKILL with a forked child", "exit", "SIGKILL"))
def test_nothing_outlives_the_kernel(tmp_path: Path, how: str) -> None:
    with Notebook(folder=tmp_path) as notebook:
        notebook.good("%load_ext nbdist")
        notebook.good(START)
        started = notebook.descendants()
        assert len(started) >= 4
        forked = [psutil.Process(int(notebook.good(FORKED).text))] if "forked" in how else []
        notebook.send("%%dist\nimport time\ntime.sleep(100)")
        if how == "exit":
            notebook.manager.shutdown_kernel(now=False)
        else:
            notebook.process.kill()
        assert not gone(started)
        for process in forked:
            assert process.is_running(), "it had the kernel's pipes"
            process.kill()


def test_a_session_imports_neither_jax_nor_what_rehearses() -> None:
    code = (
        "import sys, nbdist\n"
        "with nbdist.start(2, platform='cpu') as session:\n"
        "    session.run('import jax.numpy as jnp; a = jnp.ones(3)')\n"
        "    session.pull('a'); session.push({'b': 1}); session.shards('a'); session.snapshot()\n"
        "    session.mesh().text()\n"
        "    session.run('import sys; b = [m for m in sys.modules if m.startswith(\"nbdist.rehearsal\")]')\n"
        "    there = session.pull('b')\n"
        "here = [m for m in sys.modules if m in ('jax', 'jaxlib') or m.startswith('nbdist.rehearsal')]\n"
        "print([*here, *there])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_every_listener_is_on_loopback(session: nbdist.Session) -> None:
    session.run("float(jax.jit(lambda w: w.sum())(w))")
    listening = [
        ipaddress.ip_address(connection.laddr.ip)
        for process in psutil.Process().children(recursive=True)
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) > 5
    assert [
        one for one in listening if not (getattr(one, "ipv4_mapped", 0) or one).is_loopback
    ] == []
