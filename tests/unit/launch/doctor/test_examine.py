"""Facts about this machine, and the examiner as a program of its own."""

from __future__ import annotations

import ast
import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import nbdist.launch.doctor.examine as examine
from nbdist.contract.checkup import BackEnd
from nbdist.engine.frameworks import frameworks
from nbdist.launch.doctor.examine import BOOT, kernel_facts
from nbdist.machine import checkup
from nbdist.version import __version__

SOURCE = Path(checkup.__file__).read_text(encoding="utf-8")


def test_facts_of_this_machine_are_true_and_json_can_carry_them(tmp_path: Path) -> None:
    found = json.loads(json.dumps(checkup.checkup({"folder": str(tmp_path / "gone")})))
    assert found["host"] == socket.gethostname()
    assert found["python"] == list(sys.version_info[:3])
    assert found["packages"]["nbdist"] == __version__
    assert found["folder"] == {"path": str(tmp_path / "gone"), "exists": False}
    assert 0 < found["memory"]["available"] <= found["memory"]["total"]
    assert found["temporary"]["error"] is None
    assert abs(found["time"] - time.time()) < 60


def install(
    folder: Path, distribution: str, version: str, module: str, *, metadata: bool = True
) -> None:
    """Puts a module there as pip would."""
    (folder / module).mkdir(exist_ok=True)
    (folder / module / "__init__.py").touch()
    if metadata:
        info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        (info / "RECORD").write_text(f"{module}/__init__.py,,\n{info.name}/METADATA,,\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder that modules are found in."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in ("tensorflow", "keras", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize("distribution", ["tensorflow", "tensorflow-cpu", "tf-nightly"])
def test_a_module_has_the_version_of_what_it_came_with(site: Path, distribution: str) -> None:
    install(site, distribution, "2.21.0", "tensorflow")
    assert checkup.version("tensorflow") == "2.21.0"
    renamed = {} if distribution == "tensorflow" else {"tensorflow": distribution}
    found = checkup.packages(["tensorflow", "keras"])
    assert found["packages"].items() >= {"tensorflow": "2.21.0", "keras": None}.items()
    assert found["distributions"] == renamed


def test_nightly_builds_of_keras_count_as_keras(site: Path) -> None:
    install(site, "keras-nightly", "3.16.0.dev1", "keras")
    assert checkup.version("keras") == "3.16.0.dev1"


def test_a_module_without_metadata_is_there_in_an_unknown_version(site: Path) -> None:
    install(site, "tensorflow", "2.21.0", "tensorflow", metadata=False)
    assert checkup.version("tensorflow") == ""
    assert checkup.packages(["tensorflow"])["distributions"] == {}


def test_of_two_distributions_that_disagree_no_version_is_taken(site: Path) -> None:
    install(site, "tensorflow-cpu", "2.21.0", "tensorflow")
    install(site, "tf-nightly", "2.22.0.dev1", "tensorflow")
    assert checkup.version("tensorflow") == ""


def test_what_cannot_be_imported_has_no_version(site: Path) -> None:
    install(site, "jax", "0.12.0", "other")
    (site / "keras").mkdir()
    assert [checkup.version(name) for name in ("tensorflow", "jax", "keras")] == [None] * 3


def test_asking_for_versions_imports_nothing() -> None:
    code = (
        "import sys; from nbdist.machine import checkup; checkup.checkup({}); "
        "print(sorted(set(checkup.PACKAGES) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_examiner_is_one_file_that_python_3_8_reads() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 8))
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
    }
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def conversation(*lines: str) -> list[dict[str, object]]:
    """What the examiner answers when its source comes first, as on a host."""
    source = SOURCE.encode()
    command = [sys.executable, "-c", BOOT, str(len(source))]
    text = source + "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run(command, input=text, capture_output=True, timeout=60, check=True)
    return [json.loads(line)["checkup"] for line in done.stdout.splitlines()]


def test_the_examiner_answers_as_long_as_it_is_asked_and_ends_with_its_input() -> None:
    (alone,) = conversation('{"address": "127.0.0.1"}')
    assert alone["listening"][0] == "127.0.0.1"  # type: ignore[index]
    with checkup.listen("127.0.0.1") as listener:
        targets = json.dumps({"connect": [listener.getsockname()]})
        _, clock, answer = conversation('{"address": "192.0.2.1"}', targets)
    assert clock.keys() == {"time"}
    assert answer["connected"][0].keys() == {"ms"}  # type: ignore[index]


def test_a_listener_that_cannot_be_had_is_reported() -> None:
    (facts,) = conversation('{"address": "192.0.2.1"}')
    assert "listening" not in facts
    assert str(facts["listening_error"]).startswith("192.0.2.1: ")


def test_a_python_before_3_8_tells_its_version_and_no_more() -> None:
    pretended = BOOT.replace("v>=(3,8)", "v>=(9,9)")
    done = subprocess.run(
        [sys.executable, "-c", pretended, "5"], input=b"12345", capture_output=True, check=True
    )
    reported = json.loads(done.stdout)["checkup"]
    assert reported == {"python": list(sys.version_info[:3]), "executable": sys.executable}


def test_the_boot_line_is_one_line_without_what_shells_take_apart() -> None:
    assert not set(BOOT) & set('\n!`$\\"')


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_connecting_tells_the_time_it_took_or_why_not(address: str) -> None:
    listener = checkup.listen(address)
    port = listener.getsockname()[1]
    assert checkup.connect([[address, port]])[0].keys() == {"ms"}
    listener.close()
    assert checkup.connect([[address, port]]) == [{"error": "Connection refused"}]


def test_connecting_nowhere_ends_after_the_time_it_is_given() -> None:
    found = checkup.connect([["255.255.255.255", 9]], seconds=0.1)
    assert found[0].keys() == {"error"}
    assert checkup.connect([], seconds=9.0) == []


def test_a_way_that_answers_nothing_is_given_up_while_others_are_reported() -> None:
    with checkup.listen("127.0.0.1") as full, checkup.listen("127.0.0.1") as free:
        # A listener with no room left drops who calls, as a firewall does.
        full.listen(0)
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        found = checkup.connect([full.getsockname(), free.getsockname()], seconds=0.3)
        for caller in callers:
            caller.close()
    assert found[0] == {"error": "no answer within 0.3 s"}
    assert found[1].keys() == {"ms"}


def test_variables_of_clusters_are_reported_and_secrets_only_by_name() -> None:
    given = {
        "SLURM_JOB_ID": "12",
        "SLURM_JWT": "abc",
        "TF_CONFIG": "{}",
        "HTTPS_PROXY": "http://ada:word@proxy:3128",
        "no_proxy": "localhost",
        "JAX_EMPTY": "",
        "HOME": "/root",
        "MY_TF_CONFIG": "x",
        "XLA_FLAGS": "x" * 1000,
    }
    found = checkup.variables(given)
    assert found.pop("XLA_FLAGS") == "x" * checkup.LONGEST_VALUE
    assert found == {
        "SLURM_JOB_ID": "12",
        "SLURM_JWT": "(not shown)",
        "TF_CONFIG": "{}",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": "localhost",
    }


def test_ssh_tells_both_ends_of_its_connection() -> None:
    words = {"SSH_CONNECTION": "10.0.0.1 40000 10.0.0.11 22"}
    assert checkup.seen_as(words) == {"client": "10.0.0.1", "server": "10.0.0.11"}
    assert checkup.seen_as({}) is None


def test_a_name_that_cannot_be_resolved_is_reported_with_the_reason() -> None:
    found = checkup.own_name("no.such.host.invalid", seconds=30)
    assert (found["addresses"], found["own"]) == ([], [])
    assert found["error"]


def test_a_name_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: (time.sleep(5), [])[1])
    assert checkup.own_name("h1", seconds=0.05)["error"] == "no answer within 0.05 s"


def test_addresses_of_other_machines_are_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = [(0, 0, 0, "", ("127.0.0.1", 0)), (0, 0, 0, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: answer)
    found = checkup.own_name("h1")
    assert found["addresses"] == ["127.0.0.1", "192.0.2.1"]
    assert found["own"] == ["127.0.0.1"]


def files(root: Path, **contents: str) -> Path:
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\n"


def test_memory_is_that_of_the_machine_where_no_group_limits_it(tmp_path: Path) -> None:
    root = files(tmp_path, proc__meminfo=MEMINFO, sys__fs__cgroup__memory_DOT_max="max\n")
    assert checkup.memory(root) == {"total": 1000 << 10, "available": 800 << 10}
    assert checkup.memory(tmp_path / "none") == {"total": None, "available": None}


def test_the_smallest_limit_above_a_process_counts_without_its_cache(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        proc__meminfo=MEMINFO,
        proc__self__cgroup="0::/user/job\n",
        sys__fs__cgroup__user__job__memory_DOT_max="max\n",
        sys__fs__cgroup__user__memory_DOT_max="512000\n",
        sys__fs__cgroup__user__memory_DOT_current="500000\n",
        sys__fs__cgroup__user__memory_DOT_stat="anon 1\ninactive_file 90000\n",
    )
    assert checkup.memory(root) == {"total": 512000, "available": 102000}


def test_a_limit_of_version_one_of_control_groups_counts(tmp_path: Path) -> None:
    folder = tmp_path / "sys/fs/cgroup/memory"
    folder.mkdir(parents=True)
    files(tmp_path, proc__meminfo=MEMINFO)
    (folder / "memory.limit_in_bytes").write_text("400000")
    (folder / "memory.usage_in_bytes").write_text("100000")
    assert checkup.memory(tmp_path) == {"total": 400000, "available": 300000}


def test_a_folder_that_takes_no_file_says_why_and_where_files_go_instead(tmp_path: Path) -> None:
    found = checkup.temporary(str(tmp_path / "gone"))
    assert found["error"] == os.strerror(errno.ENOENT)
    assert found["instead"] == tempfile.gettempdir()
    found = checkup.temporary(str(tmp_path))
    assert (found["error"], found["instead"]) == (None, None)
    assert found["free"] > 0


def test_accelerators_are_counted_as_the_system_shows_them(tmp_path: Path) -> None:
    reported = {f"0000:00:0{i}.0": "0x0062" for i in range(4)}
    reported["0000:00:04.0"] = "0x0042"  # a network card
    reported["0000:00:03.1"] = "0x0062"  # the second function of a chip
    folder = "sys__bus__pci__devices__{}"
    contents = {f"{folder.format(at)}__vendor": "0x1ae0\n" for at in reported}
    contents |= {f"{folder.format(at)}__device": f"{kind}\n" for at, kind in reported.items()}
    root = files(tmp_path, **contents, dev__nvidia0="", dev__nvidia1="", dev__nvidiactl="")
    assert checkup.accelerators(root) == {"gpus": 2, "tpus": 4}


def test_locks_of_libtpu_are_reported_with_their_owner(tmp_path: Path) -> None:
    root = files(tmp_path, tmp__libtpu_lockfile="", tmp__other="")
    path = tmp_path / "tmp/libtpu_lockfile"
    assert checkup.locks(root) == [{"path": str(path), "owner": path.owner()}]


def test_the_process_that_holds_a_device_of_a_tpu_is_reported(tmp_path: Path) -> None:
    root = files(tmp_path, dev__accel0="", dev__vfio__vfio="")
    assert checkup.holders(root) == []
    with (root / "dev/accel0").open():
        (holder,) = checkup.holders(root)
    assert holder["pid"] == os.getpid()
    assert holder["devices"] == [str(root / "dev/accel0")]
    assert checkup.holders(tmp_path / "none") == []


ORPHAN = """
import os, subprocess, sys
code = "import sys; print(flush=True); sys.stdin.read()"
words = [sys.executable, "-c", code, "nbdist.agent.pretended"]
orders, nowhere = os.open(sys.argv[1], os.O_RDONLY), subprocess.DEVNULL
child = subprocess.Popen(words, stdin=orders, stdout=subprocess.PIPE, stderr=nowhere)
child.stdout.readline()
print(child.pid, flush=True)
"""


@pytest.mark.parametrize("named", [False, True], ids=["a pipe", "a named pipe"])
def test_an_orphan_of_nbdist_is_left_over_unless_its_orders_come_by_a_name(
    named: bool, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    path = f"/proc/{os.getpid()}/fd/{reader}"
    if named:
        path = str(tmp_path / "orders")
        os.mkfifo(path)
        os.close(writer)
        writer = os.open(path, os.O_RDWR)
    command = [sys.executable, "-c", ORPHAN, path]
    pid = int(subprocess.run(command, capture_output=True, timeout=60, check=True).stdout)
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        found = [process["pid"] for process in checkup.leftovers()]
        # Where a manager of services takes orphans in, its number is not 1, and nothing is claimed.
        assert (pid in found) == ("PPid:\t1\n" in status and not named)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("platform", ["tpu", None])
def test_back_ends_that_are_up_in_this_kernel_are_facts(
    platform: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = type("Client", (), {"platform": platform})() if platform else None
    monkeypatch.setattr("nbdist.engine.frameworks.jax.describe.backend", lambda: client)
    monkeypatch.setattr(
        "nbdist.engine.frameworks.tensorflow.interrupt.started", lambda: platform is not None
    )
    monkeypatch.setattr(examine, "imported", frameworks)
    up = (
        BackEnd(framework="jax", platform=str(platform)),
        BackEnd(framework="tensorflow", platform=""),
    )
    assert kernel_facts({}).backends == (up if platform else ())
