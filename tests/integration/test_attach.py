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

TICKS = """%%dist
import time
for i in range(600):
    print("tick", i)
    time.sleep(0.2)"""

SLEEP = """%%dist
import time
print("asleep")
time.sleep(600)"""


UNTIL = """%%dist
import os, time
while not os.path.exists({path!r}):
    time.sleep(0.05)"""


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
    first.collect(first.send(TICKS), until="tick 3")
    kernels.kill(first)
    time.sleep(1.0)  # something is printed while no kernel is there
    return {"closing": closing, "processes": processes}


@pytest.fixture(scope="module")
def second(kernels: Kernels, kept: dict[str, Any]) -> Notebook:
    """The next kernel."""
    return kernels.start()


def test_a_kept_session_says_how_to_come_back_and_is_listed_without_a_kernel(
    kernels: Kernels, kept: dict[str, Any]
) -> None:
    (listed,) = kernels.sessions()
    assert f"Session {listed['id']} is kept: %dist_init --attach {listed['id']}" in kept["closing"]
    assert (listed["kept"], listed["kernels"], listed["processes"]) == (True, [], 2)
    assert all(process.is_running() for process in kept["processes"])


def test_what_cannot_be_attached_is_refused_with_what_there_is(
    kernels: Kernels, second: Notebook, tmp_path: Path
) -> None:
    (listed,) = kernels.sessions()
    unknown = second.bad("%dist_init --attach nobody").traceback
    assert f"'nobody' is no session that runs. Running: {listed['id']} (2 processes" in unknown
    assert "there is no such file" in second.bad("%dist_init --attach /nowhere.json").traceback
    mentioned = second.good("%dist_init -n 1 --platform cpu --no-initialize").text
    assert f"Session {listed['id']} of this folder still runs, without a kernel" in mentioned
    second.good("%dist_shutdown")
    (tmp_path / "x.json").write_text("[]")
    text = second.bad(f"%dist_init --attach {tmp_path}/x.json").traceback
    assert "is no connection file of ipyparallel's for clients" in text
    assert "-n 4" not in (refused := second.bad("%dist_init --attach last -n 4").traceback)
    assert "-n is for starting others" in refused
    fixed = second.bad("%dist_init --attach last --no-initialize").traceback
    assert "runs already, and --no-initialize cannot change it" in fixed
    path = next((kernels.folder / "state" / "sessions").glob("*.json"))
    right = path.read_text()
    path.write_text(json.dumps({**json.loads(right), "nbdist": "0.0.1"}))
    assert "nbdist==0.0.1" in second.bad("%dist_init --attach last").traceback
    path.write_text(right)


def test_a_running_cell_and_its_output_appear_at_once_and_it_can_be_interrupted(
    second: Notebook,
) -> None:
    begun = second.send("%dist_init --attach last")
    shown = second.collect(begun)
    assert shown.error is None, shown.traceback
    assert "2 processes on this machine, 4 cpu devices" in shown.text
    assert "processes 0, 1 still run cell 5: its output goes on below" in shown.text
    status = second.good("%dist_status").text
    assert re.search(r"0 +\S+ +running +5 +5 .*time.sleep", status), status
    numbers = [int(n) for n in re.findall(r"^tick (\d+)$", shown.text, re.M)]
    assert numbers[:5] == [0, 1, 2, 3, 4], "what was printed before this kernel came, too"
    second.collect(begun, until=rf"tick {numbers[-1] + 3}\n", output=shown)
    later = [int(n) for n in re.findall(r"^tick (\d+)$", shown.text, re.M)]
    assert later == list(range(len(later))), "each once and in order, below the first line"
    second.good("s = get_ipython().magics_manager.registry['DistMagics'].session")
    assert "processes 0, 1 running" in second.good("print(s.running[0])").text
    second.good("%dist_interrupt")
    second.collect(begun, until="ProcessError: processes 0, 1 interrupted", output=shown)
    assert second.good("print(s.running)").text == "()"
    second.good("%sync")


def test_variables_mesh_and_history_are_back(second: Notebook) -> None:
    printed = second.good("%%dist\nprint(secret)").text
    assert ("process 0   40" in printed, "process 1   41" in printed) == (True, True)
    second.good("%dist_pull w")
    assert second.good("print(w.sum(), w.shape)").text == "120.0 (4, 4)"
    assert "data=2" in second.good("%dist_mesh w").text
    history = second.good("print([(c.number, c.outcome) for c in s.history])").text
    assert history.startswith("[(3, 'finished'), (4, 'raised'), (5, 'interrupted')")
    assert (
        second.good("print(s.out_of_step)").text == "False"
    )  # nothing was computed, and it was proven
    assert second.good("print(s.history[0].code.splitlines()[0])").text.startswith("import jax")


def test_two_kernels_at_once_are_reported_and_a_kernel_that_ends_leaves_the_session(
    kernels: Kernels, second: Notebook, kept: dict[str, Any], tmp_path: Path
) -> None:
    pids = second.good("print(*[p.pid for p in s.snapshot().processes])").text.split()
    third = kernels.start()
    said = third.good("%dist_init --attach last").text
    assert f"Kernel {second.process.pid} is attached as well" in said
    assert "2 processes left running, as asked" in third.good("%dist_shutdown --leave").text
    third.good("%dist_init --attach last")
    # An interrupt by another kernel has left it in step.
    assert not third.good("%dist_status").text.startswith("out of step")
    over = tmp_path / "over"
    second.send(UNTIL.format(path=str(over)))
    wait_for(lambda: " running " in third.good("%dist_status").text)
    behind = third.send("%%dist\nsecret += 1\nprint(secret)")
    over.touch()
    assert (shown := third.collect(behind)).error is None, shown.traceback
    third.manager.shutdown_kernel(now=False)
    (listed,) = kernels.sessions()
    assert listed["kernels"] == [second.process.pid]
    # Not the coordination service, which a repair replaces.
    assert pids and all(psutil.pid_exists(int(pid)) for pid in pids)
    shown = second.good("%%dist --on 1\nprint(secret)").text
    assert "42" in shown


def test_stop_ends_a_session_and_its_kernel_sees_it_go(
    kernels: Kernels, second: Notebook, kept: dict[str, Any]
) -> None:
    (listed,) = kernels.sessions()
    running = second.send(SLEEP)
    second.collect(running, until="asleep")
    stopped = kernels.command("stop", listed["id"])
    assert stopped.stdout == f"session {listed['id']}: 2 processes stopped\n", stopped.stderr
    assert not gone(kept["processes"])
    assert "the session was stopped" in second.collect(running).traceback
    assert kernels.sessions() == []
    second.good("%dist_shutdown")
    assert kernels.folders == []


def test_a_cell_of_a_kept_session_goes_on_when_its_kernel_is_restarted(
    kernels: Kernels, tmp_path: Path
) -> None:
    """Jupyter interrupts a kernel before it asks it to end."""
    own = kernels.start()
    own.good(f"{START} --keep")
    own.good("import nbdist.session.recovery.remedies as c\nc.LEAVE_SECONDS = 60.0")
    waits = UNTIL.format(path=str(tmp_path / "go")).replace("%%dist", "%%dist\nprint('inside')")
    own.collect(own.send(f"{waits}\ndone = 7"), until="inside")
    own.restart()
    own.good("%load_ext nbdist")
    named = re.search(
        r"Session \w+ is kept.*(%dist_init --attach \w+)", str(own.bad("%dist_status").error)
    )
    assert named is not None
    assert "processes 0, 1 still run cell" in own.good(named[1]).text
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
    assert "was not started with --keep" in second.bad("%dist_shutdown --leave").traceback
    (listed,) = kernels.sessions()
    assert (listed["kept"], listed["kernels"]) == (False, [second.process.pid])
    third = kernels.start()
    assert "and none is. Running" in third.bad("%dist_init --attach last").traceback
    said = third.good(f"%dist_init --attach {listed['id']}").text
    assert "ends with its own kernel" in said
    assert third.good("%%dist\nprint(mine)").text.endswith("7")
    asked = third.bad("%dist_recover").traceback
    assert "only where they were started" in asked and "--restart" not in asked
    assert "has not started them" in third.good("%dist_shutdown").text
    assert all(process.is_running() for process in processes)
    third.good(f"%dist_init --attach {listed['id']}")
    kernels.kill(second)
    assert not gone(processes)
    wait_for(lambda: "ended with its kernel" in third.good("%dist_status").text)
    third.good("%dist_shutdown")
    assert kernels.sessions() == []
    assert kernels.folders == []
    assert not list((kernels.folder / "state" / "sessions").iterdir())


APART = """%%dist
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
w = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("x")))
if jax.process_index() == 1:
    raise ValueError("apart")
print(float(jnp.sum(w)))
"""


def test_in_a_session_of_another_kernel_a_failure_says_where_it_is_repaired(
    kernels: Kernels,
) -> None:
    own = kernels.start()
    own.good("%dist_init -n 2 --platform cpu --grace 0.5 --give-up 1")
    (listed,) = [one for one in kernels.sessions() if not one["kept"]]
    third = kernels.start()
    third.good(f"%dist_init --attach {listed['id']}")
    assert "in step: checked just now" in third.good("%dist_recover").text
    said = third.bad(APART).traceback
    assert "only where they were started; %dist_pull brings values here" in said
    assert "%dist_recover" not in said and "--restart" not in said
    asked = third.bad("%dist_recover").traceback
    assert "this kernel has not started these processes, and cannot repair them" in asked
    assert "only where they were started; %dist_pull brings values here" in asked
    assert "%dist_init" not in asked
    third.good("%dist_shutdown")
    own.good("%dist_init --restart\n%dist_shutdown")


ONE_MORE = """%%dist
if jax.process_index() == 0:
    y = w * 2"""


def test_what_its_own_kernel_has_repaired_is_in_step_for_a_kernel_that_takes_part(
    kernels: Kernels,
) -> None:
    own = kernels.start()
    own.good("%dist_init -n 2 --platform cpu")
    own.good(APART.partition("if ")[0])
    (listed,) = [one for one in kernels.sessions() if not one["kept"]]
    third = kernels.start()
    third.good(f"%dist_init --attach {listed['id']}")
    assert "out of step" in third.bad(ONE_MORE).traceback
    asked = third.bad("%dist_recover").traceback
    assert "different numbers of programs" in asked
    assert "this kernel has not started these processes, and cannot repair them" in asked
    assert "in step again" in own.good("%dist_recover").text
    assert "in step: checked just now" in third.good("%dist_recover").text
    assert "28.0" in third.good("%%dist\nprint(float(jnp.sum(w)))").text
    third.good("%dist_shutdown")
    own.good("%dist_shutdown")


CONTROLLER = (
    "import nbdist\nfrom nbdist.contract.orders import CONTROLLER\n"
    "print(nbdist.current()._life.engines.link.agents.home.pids[CONTROLLER])"
)


def test_a_process_that_has_died_before_is_known_to_a_kernel_that_only_takes_part(
    kernels: Kernels,
) -> None:
    own = kernels.start()
    own.good("%dist_init -n 2 --platform cpu")
    pid = own.good("%%dist --on 1\nimport os\nos.getpid()").text.split()[-1]
    (listed,) = [one for one in kernels.sessions() if not one["kept"]]
    controller = psutil.Process(int(own.good(CONTROLLER).text))
    controller.suspend()
    psutil.Process(int(pid)).kill()
    time.sleep(4.0)  # longer than ipyparallel tries to report an end
    controller.resume()
    third = kernels.start()
    wait_for(lambda: "lost" in own.good("%dist_status").text)
    third.good(f"%dist_init --attach {listed['id']}")
    wait_for(lambda: "lost" in third.good("%dist_status").text)
    assert third.good("%%dist\nprint('here')").text.rstrip().endswith("process 0   here")
    asked = third.bad("%dist_recover").traceback
    assert "process 1 is gone, and this kernel has not started these processes" in asked
    assert "attach again" not in asked
    assert "process 1 started again" in own.good("%dist_recover").text
    assert "processes 0, 1   here" in third.good("%%dist\nprint('here')").text
    third.good("%dist_shutdown")
    own.good("%dist_shutdown")


WHERE = "%%dist\nimport os\nprint(float(w.sum()), os.getpid())"


def test_kernels_of_one_session_go_on_with_the_processes_that_any_of_them_has_started(
    kernels: Kernels,
) -> None:
    first, other = kernels.start(), kernels.start()
    first.good(f"{START} --keep")
    first.good(APART.partition("if ")[0])
    other.good("%dist_init --attach last")
    before = other.good(WHERE).text
    for one, next_one in ((first, other), (other, first)):
        psutil.Process(int(one.good("%%dist --on 1\nos.getpid()").text.split()[-1])).kill()
        wait_for(lambda one=one: "lost" in one.good("%dist_status").text)
        assert "process 1 started again" in one.good("%dist_recover").text
        one.good(APART.partition("if ")[0])
        after = one.good(WHERE).text
        assert after != before
        # Neither started once more, nor what has ended.
        assert next_one.good(WHERE).text == after
        before = after
    first.good("%dist_init -n 3")
    said = other.bad(WHERE).traceback
    assert "Another kernel has started all processes again; there are 3 now" in said
    assert "%dist_init --attach" in said
    first.good("%dist_shutdown")


@pytest.mark.parametrize("before", ["bring", "make_again"])
def test_a_repair_in_which_its_kernel_was_killed_is_begun_again_by_the_next(
    kernels: Kernels, before: str
) -> None:
    first = kernels.start()
    first.good(f"{START} --keep")
    first.good(APART.partition("if ")[0].replace('P("x")', "P()") + "mine = [jax.process_index()]")
    first.good("%dist_status")  # what is equal on both is known
    psutil.Process(int(first.good("%%dist --on 1\nimport os\nos.getpid()").text.split()[-1])).kill()
    wait_for(lambda: "lost" in first.good("%dist_status").text)
    first.good(
        "import os, signal, nbdist.session.recovery.inplace as inplace\n"
        f"inplace.{before} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)"
    )
    first.send("%dist_recover")
    first.process.wait(60)
    second = kernels.start()
    second.good("%dist_init --attach last")
    shown = second.good("%%dist\nprint(float(w.sum()), len(jax.devices()))").text
    assert "processes 0, 1   28.0 4" in shown
    assert "mine was copied from process 0" in second.good("%%dist\nprint(mine)").text
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
    other.good(f"%dist_init --attach {listed['id']}")
    read = "%%dist\nimport os\nprint(os.environ['MY_TOKEN'])"
    assert other.good(read).text.rstrip().endswith("s3cret")
    assert "%env MY_TOKEN=VALUE sets one" in other.bad("%dist_init --restart").traceback
    assert other.good(read).text.rstrip().endswith("s3cret"), "nothing was stopped"
    assert (
        "MY_TOKEN as this kernel has it"
        in other.good("%env MY_TOKEN=another\n%dist_init --restart").text
    )
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
for _ in range(20):
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
    notebook.good(ANSWER)
    notebook.good(f"client[1].execute({CANNOT_IMPORT!r}, block=True)")
    refused = notebook.bad("%dist_init --attach mine").traceback
    assert re.search(
        r"Engine 1 \(host \S+\) has no nbdist. On \S+ run: \S+ -m pip install", refused
    )
    notebook.good("client[1].execute('sys.meta_path.pop(0)', block=True)")
    said = notebook.good("%dist_init --attach mine --devices-per-process 2").text
    assert "2 processes on this machine, 4 cpu devices" in said
    assert "this kernel has not started them" in said
    notebook.good(MESH)
    notebook.good("%%dist\nprint(float(jax.jit(lambda x: x.sum())(w)))")
    stopped = notebook.bad("%%dist\nbreakpoint()").traceback
    assert "A debugger cannot be answered on this process: nbdist has not started it" in stopped
    running = notebook.send(SLEEP)
    notebook.collect(running, until="asleep")
    notebook.interrupt()
    assert "KeyboardInterrupt" in notebook.collect(running).traceback
    assert "does not stop them" in notebook.bad("%dist_init --restart").traceback
    assert "has not started them" in notebook.good("%dist_shutdown").text
    assert cluster.poll() is None
    again = notebook.good(
        "%dist_init --attach "
        f"{kernels.folder}/ipython/profile_mine/security/ipcontroller-client.json"
    ).text
    assert "as a kernel before this one has numbered them" in again
    assert notebook.good("%%dist --on 1\nprint(secret)").text.endswith("41")
    assert kernels.folders != []
    # By itself the manager ends a kernel by force that has not ended within 5 s.
    notebook.manager.shutdown_wait_time = WAIT_SECONDS
    notebook.manager.shutdown_kernel(now=False)
    assert cluster.poll() is None
    assert kernels.folders == []
