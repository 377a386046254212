"""Sessions that run, as files; what they hold, and who is removed."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from nbdist import cli
from nbdist.contract.calls.engine import Initialized, Membership
from nbdist.contract.cells import OpenCell, PastCell
from nbdist.contract.wire import decode, encode
from nbdist.errors import LaunchError, SessionError, WireError
from nbdist.launch.agents.fifo_channel import STOP, FoundAgain, LastingChild
from nbdist.launch.model.framework import Rendezvous
from nbdist.launch.model.hosts import SshOptions, parse_hosts
from nbdist.launch.model.plan import Placement
from nbdist.launch.model.start_options import Rules, StartOptions
from nbdist.launch.planning import make_plan
from nbdist.launch.sessions import recorded, registry
from nbdist.launch.sessions.foreign import number_engines, read_connection, resolve
from nbdist.launch.sessions.recorded import State
from nbdist.launch.sessions.registry import ParentMark, Record
from nbdist.machine.processes import ProcessHandle, beginning, found
from nbdist.session.cells.history import History, read_history
from nbdist.starting import no_session
from tests.builders.described import reported

BY_HOST = "by host and engine id"
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "sessions"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as found:
        yield found
        found.kill()


def record(process: subprocess.Popen[bytes], folder: Path, **changes: object) -> Record:
    folder.mkdir(exist_ok=True)
    began = beginning(process.pid) or ""
    made = Record(
        id="0badcafe",
        nbdist="0",
        python="3",
        created=1.0,
        kept=True,
        host="h1",
        machine=registry.this_machine(),
        cwd="/",
        folder=str(folder),
        connection=str(folder / "client.json"),
        framework="jax",
        hosts=("h1",),
        processes=2,
        parents=(ParentMark(name="", pid=process.pid, began=began, log="log"),),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_file_of_a_session_is_private_and_says_what_was_written(
    process: subprocess.Popen[bytes], tmp_path: Path, state: Path
) -> None:
    made = record(process, tmp_path / "nbdist-a", kernels=(ProcessHandle(1, "x"),))
    registry.write(made)
    (path,) = state.glob("*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert registry.sessions() == [made]


@pytest.mark.parametrize(("name", "is_ours"), [("nbdist-a", True), ("thesis", False)])
def test_a_session_whose_processes_are_gone_is_cleaned_up_with_a_folder_of_our_own_alone(
    process: subprocess.Popen[bytes], tmp_path: Path, state: Path, name: str, is_ours: bool
) -> None:
    folder = tmp_path / name
    registry.write(record(process, folder))
    process.kill()
    process.wait()
    assert registry.sessions() == []
    assert not list(state.iterdir())
    assert folder.exists() is not is_ours


def test_a_session_from_before_a_reboot_is_taken_off_the_list(
    process: subprocess.Popen[bytes], tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "this_installation", lambda: "h1 4711")
    host, _, namespace = registry.this_machine().split(" ")
    machine = f"{host} another-boot {namespace}"
    before = record(process, tmp_path / "nbdist-a", machine=machine, installation="h1 4711")
    elsewhere = replace(
        record(process, tmp_path / "nbdist-b", machine=machine, installation="h1 4712"),
        id="1badcafe",
    )
    unknown = replace(record(process, tmp_path / "nbdist-c", machine=machine), id="2badcafe")
    for one in (before, elsewhere, unknown):
        registry.write(one)
    assert {one.id for one in registry.sessions()} == {"1badcafe", "2badcafe"}
    assert not (tmp_path / "nbdist-a").exists()
    assert (tmp_path / "nbdist-b").exists() and (tmp_path / "nbdist-c").exists()
    assert process.poll() is None  # its number is another process's by now


def test_a_session_whose_machine_is_gone_for_good_can_be_forgotten(
    process: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.write(record(process, tmp_path / "nbdist-a", machine="h9 other pid", host="h9"))
    assert cli.main(["stop", "0badcafe"]) == 1
    assert "nbdist stop --forget 0badcafe" in capsys.readouterr().err
    assert cli.main(["stop", "--forget", "0badcafe"]) == 0
    assert capsys.readouterr().out == "session 0badcafe: forgotten\n"
    assert registry.sessions() == []
    registry.write(record(process, tmp_path / "nbdist-a"))
    assert cli.main(["stop", "--forget", "0badcafe"]) == 1
    assert "of this machine" in capsys.readouterr().err
    assert [one.id for one in registry.sessions()] == ["0badcafe"]


def test_a_session_of_another_machine_is_listed_and_left_alone(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    away = record(process, tmp_path / "nbdist-a", machine="h9 other", host="h9")
    registry.write(away)
    process.kill()
    process.wait()
    assert registry.sessions() == [away]
    with pytest.raises(SessionError, match=r"on host h9. Stop it there: nbdist stop 0badcafe"):
        registry.stop(away)
    with pytest.raises(SessionError, match=r"on host h9. Attach to it from a kernel there"):
        recorded.regain(away)


def test_a_session_of_which_nobody_knows_whether_its_machine_was_restarted_says_so_and_can_be_forgotten(
    process: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container that was started again: nothing there tells it from another of that name."""
    name = socket.gethostname()
    registry.write(
        record(process, tmp_path / "nbdist-a", machine=f"{name} another-boot pid:[1]", host=name)
    )
    said = f"on {name} before a restart of it, or in another container of that name"
    assert cli.main(["stop", "0badcafe"]) == 1
    assert said in (error := capsys.readouterr().err) and "stop --forget 0badcafe" in error
    with pytest.raises(SessionError, match=r"another container of that name. .*--forget 0badcafe"):
        recorded.regain(registry.find("0badcafe"))
    assert cli.main(["stop", "--forget", "0badcafe"]) == 0
    assert registry.sessions() == []
    assert process.poll() is None


def test_another_process_of_the_same_number_is_never_taken_for_a_session(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    other = ParentMark(name="", pid=process.pid, began="long ago", log="log")
    assert not registry.stop(record(process, tmp_path / "nbdist-a", parents=(other,)))
    ProcessHandle(process.pid, "long ago").signal(9)
    assert process.poll() is None
    held = found(process.pid)
    assert held is not None
    held.signal(9)
    assert held.wait(5)


def test_a_process_that_only_waits_to_be_noted_is_gone() -> None:
    process = subprocess.Popen(["true"])
    held = found(process.pid)
    assert held is None or held.wait(5)
    assert process.wait() == 0


def test_words_for_sessions_and_what_is_listed_when_there_is_none(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with pytest.raises(SessionError, match=r"No session of yours runs on .* --keep starts one"):
        registry.find("last")
    folder = tmp_path / "nbdist-a"
    registry.write(record(process, folder, id="aa2", kept=False, created=2.0))
    with pytest.raises(SessionError, match=r"that is kept, and none is. Running: aa2 \(2 proc"):
        registry.find("last")
    for name, kept, created in (("aa1", True, 1.0), ("aa2", False, 2.0), ("b", True, 0.5)):
        registry.write(record(process, folder, id=name, kept=kept, created=created))
    assert registry.find("last").id == "aa1"  # the newest that is kept
    assert registry.find("b").id == "b"
    with pytest.raises(SessionError, match=r"'aa' is the beginning of several. Running: b \("):
        registry.find("aa")
    with pytest.raises(SessionError, match=r"'x' is no session that runs. .*aa1 \(2 processes"):
        registry.find("x")


def test_kernels_come_and_go(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    gone = ProcessHandle(process.pid, "long ago")
    registry.write(record(process, tmp_path / "nbdist-a", kernels=(gone,)))
    registry.attach(registry.find("last"))
    assert [kernel.pid for kernel in registry.find("last").kernels] == [os.getpid()]
    registry.detach("0badcafe")
    assert registry.find("last").kernels == ()


def test_ls_prints_a_row_a_session_and_json(
    process: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ls"]) == 0
    assert "No session runs" in capsys.readouterr().out
    made = record(process, tmp_path / "nbdist-a", hosts=("h1", "h2"))
    assert cli.row(made, now=126.0) == (
        *("0badcafe", "h1, h2", "2", "jax", "2 min 5 s", "none", "yes"),
    )
    registry.write(made)
    assert cli.main(["ls"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == list(cli.HEADINGS)
    assert line.startswith("0badcafe  h1, h2  2          jax")
    assert cli.main(["ls", "--json"]) == 0
    assert '"id": "0badcafe"' in capsys.readouterr().out


def test_stop_stops_by_handle_and_says_so(
    process: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["stop"]) == 2
    assert cli.main(["stop", "nobody"]) == 1
    assert "'nobody' is no session" in capsys.readouterr().err
    folder = tmp_path / "nbdist-a"
    registry.write(record(process, folder))
    assert cli.main(["stop", "--all"]) == 0
    assert "session 0badcafe: 2 processes stopped" in capsys.readouterr().out
    assert process.wait(5) == -15
    assert not folder.exists()


def test_a_plan_is_the_same_after_json() -> None:
    placement = Placement(
        launcher="ssh",
        hosts=parse_hosts("me@h1:2,h2:2222:2"),
        ssh=SshOptions(python="/usr/bin/python3"),
        cwd="/tmp",
    )
    plan = make_plan(
        StartOptions(platform="cpu", environment={"A": "b"}, initialization_timeout_s=5, keep=True),
        placement,
    )
    rendezvous = Rendezvous(coordinator="h1:1", tasks={1: "h2:2"}, own={0: "10.0.0.1"})
    state = State(
        plan=plan,
        asked=plan,
        rendezvous=rendezvous,
        engines={0: 3},
        idents={0: "x"},
        pids={0: 7},
        answers={0: Initialized(version="1", ports=(1, 2))},
        of={0: "h1"},
        rules=Rules(grace_s=2.0),
    )
    assert decode(State, json.loads(json.dumps(encode(state)))) == state
    with pytest.raises(WireError, match="State"):
        decode(State, {"plan": 3})


def test_orders_and_events_of_a_kept_parent_are_found_again(tmp_path: Path) -> None:
    code = """
import sys
for line in filter(str.strip, sys.stdin):
    print('got', line, end='', flush=True)
    if 'stop' in line:
        break
"""
    kept = LastingChild([sys.executable, "-c", code], None, tmp_path / "host.log")
    kept.send(b"one\n")
    assert next(iter(kept.lines())) == b"got one\n"
    spot = kept.spot
    assert spot is not None
    kept.close()
    assert kept.process.running  # a kernel that goes takes nothing along
    again = FoundAgain(spot)
    assert list(again.backlog()) == [b"got one\n"]  # what was said before
    again.end()
    assert list(again.lines()) == [b"got " + STOP]
    again.close()
    assert kept.process.wait(5)
    with pytest.raises(OSError, match="left the session"):
        again.send(b"two\n")


def test_cells_are_known_to_the_next_kernel(tmp_path: Path) -> None:
    history = History(tmp_path)
    cell = OpenCell(
        kernel=1, run=10, number=3, code="x", offset=1, started=5.0, requests={0: "a", 1: "b"}
    )
    history.begun(cell)
    assert read_history(tmp_path).running == [cell]
    other = OpenCell(kernel=1, run=11, number=4, code="y", offset=0, started=6.0)
    history.begun(other)
    with_requests = structs.replace(other, requests={0: "c", 2: "d"})
    history.begun(with_requests)
    assert read_history(tmp_path).running == [cell, with_requests]
    past = PastCell(
        number=3, code="x", targets=(0, 1), started=5.0, seconds=1.0, outcome="interrupted"
    )
    history.ended(past, run=10, since=3, stuck=frozenset({1}))
    with (tmp_path / "cells.jsonl").open("a") as file:
        file.write('{"begun": {"half\n{"event": "begun", "cell": {"run": "10"}}\n')
    known = read_history(tmp_path)
    assert (known.past, [one.run for one in known.running]) == ([past], [11])
    assert (known.since, known.stuck) == (3, frozenset({1}))
    history.recovered()
    after = read_history(tmp_path)
    assert (after.since, after.stuck, after.past) == (None, frozenset(), [past])
    assert stat.S_IMODE((tmp_path / "cells.jsonl").stat().st_mode) == 0o600


def test_no_place_for_a_history_is_no_error(tmp_path: Path) -> None:
    history = History(tmp_path / "gone")
    past = PastCell(number=3, code="x", targets=(0,), started=5.0, seconds=1.0, outcome="finished")
    history.ended(past, run=1, since=None, stuck=frozenset())
    assert history.cells == [past]
    assert read_history(tmp_path / "gone").past == []


def test_process_ids_come_from_what_the_engines_know() -> None:
    by_slurm = {0: reported(numbers={"SLURM_PROCID": 1}), 1: reported(numbers={"SLURM_PROCID": 0})}
    assert number_engines(by_slurm) == ({0: 1, 1: 0}, "by SLURM_PROCID")
    stray = {e: reported(numbers={"SLURM_PROCID": 0, "OMPI_COMM_WORLD_RANK": e}) for e in (0, 1)}
    assert number_engines(stray) == ({0: 0, 1: 1}, "by OMPI_COMM_WORLD_RANK")
    nothing = {0: reported("h2"), 4: reported("h1"), 2: reported("h1")}
    assert number_engines(nothing) == ({2: 0, 4: 1, 0: 2}, BY_HOST)
    joined = {
        e: structs.replace(f, joined=Membership(process_id=1 - e, count=2))
        for e, f in by_slurm.items()
    }
    assert number_engines(joined) == ({0: 1, 1: 0}, "as in JAX's cluster")
    before = {0: reported(settled=1), 5: reported(), 6: reported(settled=0)}
    ids, how = number_engines(before)
    assert (ids, "kernel before" in how) == ({0: 1, 6: 0, 5: 2}, True)
    with pytest.raises(LaunchError, match="These 1 engines were processes 2 of a session"):
        number_engines({0: reported(settled=2)})


def test_what_is_no_connection_file_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="there is no such file"):
        resolve(str(tmp_path / "nothing.json"))
    path = tmp_path / "ipcontroller-engine.json"
    path.write_text("{}")
    with pytest.raises(SessionError, match="It is that of the engines"):
        read_connection(path)
    path = tmp_path / "notebook.ipynb"
    path.write_text("no json")
    with pytest.raises(SessionError, match="is no connection file of ipyparallel's"):
        resolve(str(path))


def test_a_cluster_file_leads_to_its_connection_file(tmp_path: Path) -> None:
    names = ("interface", "key", "iopub", "signature_scheme", "registration")
    security = tmp_path / "security"
    security.mkdir()
    (security / "ipcontroller-x-client.json").write_text(
        str(dict.fromkeys(names, "1")).replace("'", '"')
    )
    cluster = security / "cluster-x.json"
    cluster.write_text(f'{{"cluster": {{"cluster_id": "x", "profile_dir": "{tmp_path}"}}}}')
    assert read_connection(cluster) == dict.fromkeys(names, "1")


def test_a_kernel_without_a_session_names_the_one_that_is_kept(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert no_session() == "No session is running. %dist_init starts one."
    registry.write(record(process, tmp_path / "nbdist-other", id="0badcafe", kept=False))
    assert no_session() == "No session is running. %dist_init starts one."
    registry.write(record(process, tmp_path / "nbdist-kept", id="1badcafe", kept=True))
    assert no_session() == (
        "No session is running in this kernel. Session 1badcafe is kept. %dist_init --attach 1badcafe goes back "
        "to it, %dist_init starts another."
    )
