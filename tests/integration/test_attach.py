"""Sessions that outlive their kernel, and engines that somebody else has started."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.builders.cells import SPREAD, until
from tests.integration.conftest import START
from tests.integration.kernels import Kernels, engines_of
from tests.integration.notebook import Notebook, gone
from tests.waiting import WAIT_SECONDS, wait_for

MESH = """%%dist
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
w = jax.device_put(np.arange(16.0).reshape(4, 4), NamedSharding(mesh, P("data", "model")))
secret = 40 + jax.process_index()"""
TICKS = "%%dist\nimport itertools, time\nfor i in itertools.count():\n    print('tick', i)\n    time.sleep(0.2)"
SLEEP = "%%dist\nimport time\nprint('asleep')\ntime.sleep(600)"
ALL_OF_IT = f"%%dist\n{SPREAD}w = spread(np.arange(8.0), 'x')"
ATTACH = "%dist_init --attach"
PID = "%%dist --on 1\nimport os\nos.getpid()"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    found = Kernels(tmp_path_factory.mktemp("kernels"))
    yield found
    found.close()


@pytest.fixture(scope="module", autouse=True)
def cluster(kernels: Kernels) -> Iterator[subprocess.Popen[bytes]]:
    """Two engines that `ipcluster` starts for the profile `mine`, which takes a while."""
    command = [sys.executable, "-m", "ipyparallel.cluster", "start", "-n", "2", "--profile=mine"]
    environment = {**os.environ, **kernels.environment, "JAX_PLATFORMS": "cpu"}
    log = (kernels.folder / "ipcluster.log").open("wb")
    with log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process:
        yield process
        process.send_signal(signal.SIGINT)
        process.wait(30)


@pytest.fixture(scope="module")
def kept(kernels: Kernels) -> dict[str, Any]:
    """A kept session in the middle of a cell, whose kernel was killed."""
    first = kernels.start()
    closing = first.good(f"{START} --keep").text
    first.good(MESH)
    first.bad("%%dist --on 0\n1 / 0")
    processes = engines_of(first)
    first.follow(TICKS, "tick 3")
    kernels.kill(first)
    time.sleep(1.0)  # something is printed while no kernel is there
    return {"closing": closing, "processes": processes}


@pytest.fixture(scope="module")
def second(kernels: Kernels, kept: dict[str, Any]) -> Notebook:
    """The next kernel."""
    return kernels.start()


def kill_process_1(notebook: Notebook) -> None:
    """Ends it; returns when this kernel knows."""
    psutil.Process(int(notebook.good(PID).text.split()[-1])).kill()
    wait_for(lambda: "lost" in notebook.good("%dist_status").text)


def test_a_kept_session_says_how_to_come_back_and_is_listed_without_a_kernel(
    kernels: Kernels, kept: dict[str, Any]
) -> None:
    (listed,) = kernels.sessions()
    assert f"Session {listed['id']} is kept: {ATTACH} {listed['id']}" in kept["closing"]
    assert (listed["kept"], listed["kernels"], listed["processes"]) == (True, [], 2)
    assert all(process.is_running() for process in kept["processes"])


def test_what_cannot_be_attached_is_refused_with_what_there_is(
    kernels: Kernels, second: Notebook, tmp_path: Path
) -> None:
    (listed,) = kernels.sessions()
    second.shows(
        "%dist_init -n 1 --platform cpu --no-initialize",
        f"Session {listed['id']} of this folder still runs, without a kernel",
    )
    second.good("%dist_shutdown")
    (tmp_path / "x.json").write_text("[]")
    for attached, values in {
        "nobody": ("'nobody'", listed["id"], "(2 processes"),
        "/nowhere.json": ("/nowhere.json", "no such file"),
        f"{tmp_path}/x.json": ("is no connection file of ipyparallel's for clients",),
        "last --no-initialize": ("--no-initialize",),
    }.items():
        second.fails(f"{ATTACH} {attached}", *values)
    refused = second.fails(f"{ATTACH} last -n 4", "-n is for starting others").traceback
    assert "-n 4" not in refused
    path = next((kernels.folder / "state" / "sessions").glob("*.json"))
    right = path.read_text()
    path.write_text(json.dumps({**json.loads(right), "nbdist": "0.0.1"}))
    second.fails(f"{ATTACH} last", "nbdist==0.0.1")
    path.write_text(right)


def test_a_running_cell_and_its_output_appear_at_once_and_it_can_be_interrupted(
    second: Notebook,
) -> None:
    begun = second.send(f"{ATTACH} last")
    shown = second.collect(begun)
    assert shown.error is None, shown.traceback
    assert "4 cpu devices" in shown.text
    assert "still run cell 5" in shown.text
    status = second.good("%dist_status").text
    assert re.search(r"0 +\S+ +running +5 +5 .*time.sleep", status), status
    numbers = [int(n) for n in re.findall(r"^tick (\d+)$", shown.text, re.M)]
    assert numbers[:5] == [0, 1, 2, 3, 4], "from before this kernel"
    second.collect(begun, until=rf"tick {numbers[-1] + 3}\n", output=shown)
    later = [int(n) for n in re.findall(r"^tick (\d+)$", shown.text, re.M)]
    assert later == list(range(len(later))), "each once"
    second.good("s = get_ipython().magics_manager.registry['DistMagics'].session")
    second.shows("print(s.running[0])", "processes 0, 1 running")
    second.good("%dist_interrupt")
    second.collect(begun, until="ProcessError: Processes 0, 1 were interrupted", output=shown)
    assert second.good("print(s.running)").text == "()"
    second.good("%sync")


def test_variables_mesh_and_history_are_back(second: Notebook) -> None:
    second.shows("%%dist\nprint(secret)", "process 0   40", "process 1   41")
    assert second.good("%dist_pull w\nprint(w.sum(), w.shape)").text == "120.0 (4, 4)"
    second.shows("%dist_mesh w", "data=2")
    history = second.good("print([(c.number, c.outcome) for c in s.history])").text
    assert history.startswith("[(3, 'finished'), (4, 'raised'), (5, 'interrupted')")
    # Nothing was computed, and it was proven.
    assert second.good("print(s.out_of_step)").text == "False"
    assert second.good("print(s.history[0].code.splitlines()[0])").text.startswith("import jax")


def test_two_kernels_at_once_are_reported_and_a_kernel_that_ends_leaves_the_session(
    kernels: Kernels, second: Notebook, kept: dict[str, Any], tmp_path: Path
) -> None:
    pids = second.good("print(*[p.pid for p in s.snapshot().processes])").text.split()
    third = kernels.start()
    third.shows(f"{ATTACH} last", f"Kernel {second.process.pid}")
    third.shows("%dist_shutdown --leave", "2 processes left running")
    third.good(f"{ATTACH} last")
    # An interrupt by another kernel has left it in step.
    assert not third.good("%dist_status").text.startswith("out of step")
    over = tmp_path / "over"
    second.send(f"%%dist\n{until(over)}")
    wait_for(lambda: " running " in third.good("%dist_status").text)
    behind = third.send("%%dist\nsecret += 1\nprint(secret)")
    over.touch()
    assert (shown := third.collect(behind)).error is None, shown.traceback
    third.manager.shutdown_kernel(now=False)
    (listed,) = kernels.sessions()
    assert listed["kernels"] == [second.process.pid]
    # Not the coordination service, which a repair replaces.
    assert pids and all(psutil.pid_exists(int(pid)) for pid in pids)
    second.shows("%%dist --on 1\nprint(secret)", "42")


def test_stop_ends_a_session_and_its_kernel_sees_it_go(
    kernels: Kernels, second: Notebook, kept: dict[str, Any]
) -> None:
    (listed,) = kernels.sessions()
    running, _ = second.follow(SLEEP, "asleep")
    stopped = kernels.command("stop", listed["id"])
    assert stopped.stdout == f"session {listed['id']}: 2 processes stopped\n", stopped.stderr
    assert not gone(kept["processes"])
    second.collect(running).names("was stopped")
    assert kernels.sessions() == []
    second.good("%dist_shutdown")
    assert kernels.folders == []


def test_a_cell_of_a_kept_session_goes_on_when_its_kernel_is_restarted(
    kernels: Kernels, tmp_path: Path
) -> None:
    """Jupyter interrupts a kernel before it asks it to end."""
    own = kernels.start()
    own.good(f"{START} --keep")
    own.good("import nbdist.session.recovery as c\nc.LEAVE_SECONDS = 60.0")
    own.follow(f"%%dist\nprint('inside')\n{until(tmp_path / 'go')}done = 7", "inside")
    own.restart()
    own.good("%load_ext nbdist")
    refused = str(own.bad("%dist_status").error)
    named = re.search(r"Session \w+ is kept.*(%dist_init --attach \w+)", refused)
    assert named is not None
    own.shows(named[1], "processes 0, 1 still run cell")
    (tmp_path / "go").touch()
    own.good("%sync")
    assert own.good("%%dist\nprint(done)").text == "processes 0, 1   7"
    own.good("%dist_shutdown")


def test_a_kernel_that_is_killed_before_others_can_find_its_session_leaves_nothing(
    kernels: Kernels,
) -> None:
    notebook = kernels.start()
    notebook.send(f"{START} --keep")
    wait_for(lambda: [p for p in engines_of(notebook) if "nbdist.agent" in p.cmdline()])
    processes = engines_of(notebook)
    kernels.kill(notebook)
    assert not gone(processes)
    assert kernels.sessions() == []


def test_a_session_that_is_not_kept_ends_with_its_kernel_and_others_only_take_part(
    kernels: Kernels, second: Notebook
) -> None:
    second.good("%dist_init -n 1 --platform cpu")
    processes = engines_of(second)
    second.good("%%dist\nmine = 7")
    second.fails("%dist_shutdown --leave", "--keep")
    (listed,) = kernels.sessions()
    assert (listed["kept"], listed["kernels"]) == (False, [second.process.pid])
    third = kernels.start()
    third.fails(f"{ATTACH} last", "none is. Running", listed["id"])
    third.shows(f"{ATTACH} {listed['id']}", "ends with its own kernel")
    assert third.good("%%dist\nprint(mine)").text.endswith("7")
    assert "--restart" not in third.fails("%dist_recover", "where they were started").traceback
    third.shows("%dist_shutdown", "has not started them")
    assert all(process.is_running() for process in processes)
    third.good(f"{ATTACH} {listed['id']}")
    kernels.kill(second)
    assert not gone(processes)
    wait_for(lambda: "ended with its kernel" in third.good("%dist_status").text)
    third.good("%dist_shutdown")
    assert kernels.sessions() == []
    assert kernels.folders == []
    assert not list((kernels.folder / "state" / "sessions").iterdir())


def test_kernels_of_one_session_go_on_with_the_processes_that_any_of_them_has_started(
    kernels: Kernels,
) -> None:
    where = "%%dist\nprint(float(w.sum()), os.getpid())"
    first, other = kernels.start(), kernels.start()
    first.good(f"{START} --keep")
    first.good(ALL_OF_IT)
    other.good(f"{ATTACH} last")
    before = other.good(where).text
    for one, next_one in ((first, other), (other, first)):
        kill_process_1(one)
        one.shows("%dist_recover", "Process 1 was replaced")
        one.good(ALL_OF_IT)
        after = one.good(where).text
        assert after != before
        # Neither started once more, nor what has ended.
        assert next_one.good(where).text == after
        before = after
    first.good("%dist_init -n 3")
    said = "Another kernel has started all processes again; there are 3 now"
    other.fails(where, said, ATTACH)
    first.good("%dist_shutdown")


@pytest.mark.parametrize("before", ["bring", "copy_arrays_after_repair"])
def test_a_repair_in_which_its_kernel_was_killed_is_begun_again_by_the_next(
    kernels: Kernels, before: str
) -> None:
    first = kernels.start()
    first.good(f"{START} --keep")
    first.good(f"%%dist\n{SPREAD}w = spread(np.arange(8.0))\nmine = [me]")
    first.good("%dist_status")  # what is equal on both is known
    kill_process_1(first)
    first.good(
        "import os, signal, nbdist.session.recovery.repair as repair\n"
        f"repair.{before} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)"
    )
    first.send("%dist_recover")
    first.process.wait(60)
    second = kernels.start()
    second.good(f"{ATTACH} last")
    second.shows("%%dist\nprint(float(w.sum()), len(jax.devices()))", "processes 0, 1   28.0 4")
    second.shows("%%dist\nprint(mine)", "mine was copied from process 0")
    second.good("%dist_shutdown")


def test_values_of_variables_are_not_written_down_and_a_restart_asks_for_them(
    kernels: Kernels,
) -> None:
    own = kernels.start()
    own.good("%dist_init -n 1 --platform cpu --keep --env MY_TOKEN=s3cret")
    (listed,) = [one for one in kernels.sessions() if one["processes"] == 1]
    own.good("%dist_shutdown --leave")
    state = kernels.folder / "state"
    assert not [p for p in state.rglob("*") if p.is_file() and b"s3cret" in p.read_bytes()]
    other = kernels.start()
    other.good(f"{ATTACH} {listed['id']}")
    read = "%%dist\nimport os\nprint(os.environ['MY_TOKEN'])"
    assert other.good(read).text.rstrip().endswith("s3cret")
    other.fails("%dist_init --restart", "%env MY_TOKEN=VALUE")
    assert other.good(read).text.rstrip().endswith("s3cret"), "nothing was stopped"
    other.shows("%env MY_TOKEN=another\n%dist_init --restart", "MY_TOKEN taken from this kernel")
    assert other.good(read).text.rstrip().endswith("another")
    other.good("%dist_shutdown")


CANNOT_IMPORT = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'nbdist':
            raise ModuleNotFoundError("No module named 'nbdist'")
sys.meta_path.insert(0, Nothing())
"""

ANSWER = """
import ipyparallel as ipp
while True:
    client = ipp.Client(profile='mine')
    try:
        client[:].apply_async(int).get(timeout=4)
        break
    except ipp.error.TimeoutError:
        client.close()
"""
"""The first request to engines that have just been registered was once never answered, on a busy machine."""


def test_engines_of_others_become_a_session_and_go_on_when_it_ends(
    kernels: Kernels, cluster: subprocess.Popen[bytes]
) -> None:
    log = kernels.folder / "ipcluster.log"
    wait_for(lambda: log.read_bytes().count(b"finished registering") == 2)
    notebook = kernels.any()
    notebook.good(ANSWER, timeout_s=WAIT_SECONDS)
    notebook.good(f"client[1].execute({CANNOT_IMPORT!r}, block=True)")
    refused = notebook.bad(f"{ATTACH} mine").traceback
    assert re.search(r"Engine 1 \(host \S+\) has no nbdist. .*: \S+ -m pip install", refused)
    notebook.good("client[1].execute('sys.meta_path.pop(0)', block=True)")
    notebook.shows(
        f"{ATTACH} mine --devices-per-process 2", "4 cpu devices", "has not started them"
    )
    notebook.good(MESH)
    notebook.good("%%dist\nprint(float(jax.jit(lambda x: x.sum())(w)))")
    notebook.fails("%%dist\nbreakpoint()", "nbdist has not started it")
    running, _ = notebook.follow(SLEEP, "asleep")
    notebook.stopped(running)
    notebook.fails("%dist_init --restart", "does not stop them")
    notebook.shows("%dist_shutdown", "has not started them")
    assert cluster.poll() is None
    client = kernels.folder / "ipython/profile_mine/security/ipcontroller-client.json"
    again = notebook.good(f"{ATTACH} {client}").text
    assert "as a kernel before this one has numbered them" in again
    assert notebook.good("%%dist --on 1\nprint(secret)").text.endswith("41")
    assert kernels.folders != []
    # By itself the manager ends a kernel by force that has not ended within 5 s.
    notebook.manager.shutdown_wait_time = WAIT_SECONDS
    notebook.manager.shutdown_kernel(now=False)
    assert cluster.poll() is None
    assert kernels.folders == []


@pytest.fixture(scope="module")
def pair(kernels: Kernels) -> Iterator[tuple[Notebook, Notebook, str]]:
    """The kernel of a session that is not kept, and another that takes part in it; each test leaves it in step."""
    own, third = kernels.start(), kernels.start()
    own.good("%dist_init -n 2 --platform cpu --grace 0.5 --give-up 1")
    own.good(ALL_OF_IT)
    (listed,) = [one for one in kernels.sessions() if not one["kept"]]
    third.good(f"{ATTACH} {listed['id']}")
    yield own, third, listed["id"]
    third.good("%dist_shutdown")
    own.good("%dist_shutdown")


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("if me == 1:\n    raise ValueError('apart')\nprint(float(w.sum()))", ()),
        ("if me == 0:\n    y = w * 2", ("different numbers of programs",)),
    ],
    ids=["one raises", "one sends more"],
)
def test_a_kernel_that_takes_part_says_where_it_is_repaired_and_sees_when_it_was(
    pair: tuple[Notebook, Notebook, str], cell: str, values: tuple[str, ...]
) -> None:
    own, third, _ = pair
    third.shows("%dist_recover", "as a check has just shown")
    said = third.fails(f"%%dist\n{cell}", "ProcessError").traceback
    assert "%dist_recover" not in said and "--restart" not in said
    asked = third.fails("%dist_recover", "cannot repair them", "%dist_pull", *values).traceback
    assert "%dist_init" not in asked
    own.shows("%dist_recover", "was repaired in")
    third.shows("%dist_recover", "as a check has just shown")
    own.good(ALL_OF_IT)
    third.shows("%%dist\nprint(float(w.sum()))", "28.0")


CONTROLLER = (
    "import nbdist\nfrom nbdist.contract.orders import CONTROLLER\n"
    "print(nbdist.current()._life.engines.cluster.agents.home.pids[CONTROLLER])"
)


def test_a_process_that_has_died_before_is_known_to_a_kernel_that_only_takes_part(
    pair: tuple[Notebook, Notebook, str],
) -> None:
    own, third, session = pair
    third.good("%dist_shutdown")
    pid = own.good(PID).text.split()[-1]
    controller = psutil.Process(int(own.good(CONTROLLER).text))
    controller.suspend()
    psutil.Process(int(pid)).kill()
    time.sleep(4.0)  # longer than ipyparallel tries to report an end
    controller.resume()
    wait_for(lambda: "lost" in own.good("%dist_status").text)
    third.good(f"{ATTACH} {session}")
    wait_for(lambda: "lost" in third.good("%dist_status").text)
    assert third.good("%%dist\nprint('here')").text.rstrip().endswith("process 0   here")
    asked = third.fails("%dist_recover", "Process 1 is gone", "has not started").traceback
    assert "attach again" not in asked
    own.shows("%dist_recover", "Process 1 was replaced")
    third.shows("%%dist\nprint('here')", "processes 0, 1   here")
