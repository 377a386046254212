"""From facts to findings: each thing that can be wrong, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.contract.checkup import OldPython
from nbdist.launch.doctor.finding import Clock, Examined
from tests.builders.examined import examined, facts, found, kernel, only

CHIPS = {"gpus": 0, "tpus": 4}
HOLDER = {"pid": 77, "user": "ada", "command": "python train.py", "devices": ["/dev/accel0"]}
LOCK = "/tmp/libtpu_lockfile"
FULL = {"path": "/tmp", "free": 0, "error": "No space left", "instead": None}
OTHER_END = {"client": "10.0.0.77", "server": "10.0.0.11"}


def name(*addresses: str, own: tuple[str, ...] = (), error: str | None = None) -> dict[str, Any]:
    """What the name of h1 leads to."""
    return {"name": {"addresses": [*addresses], "own": [*own], "error": error}}


def lock(owner: str) -> dict[str, Any]:
    return {"locks": [{"path": LOCK, "owner": owner}]}


NOTHING: dict[str, Any] = {
    "all is well": ({}, {}),
    "a newer version of the same series": ({"packages": {"ipyparallel": "9.2.7"}}, {}),
    "a version that cannot be known": (
        {"packages": {"tensorflow": ""}},
        {"framework": "tensorflow"},
    ),
    "chips are used where there are some": (
        {"variables": {"TPU_WORKER_ID": "1"}, "accelerators": CHIPS},
        {},
    ),
    "memory that cannot be found out": (
        {"memory": {"total": None, "available": None}},
        {},
    ),
    "who holds what looks like a chip": ({"holders": [HOLDER]}, {}),
    "a chip that nobody asks for": (
        {"holders": [HOLDER], "accelerators": CHIPS},
        {"platform": "cpu"},
    ),
    "the processes of a session that runs": (
        {
            "holders": [HOLDER],
            "accelerators": CHIPS,
            "memory": {"total": 1 << 30, "available": 0},
        },
        {"starting": False},
    ),
}


@pytest.mark.parametrize("case", NOTHING)
def test_nothing_is_found_where_nothing_is_wrong(case: str) -> None:
    changed, needs = NOTHING[case]
    other = Examined(host="h3", shell="ssh h3 ")  # it has told nothing
    assert found(examined(reported=facts(**changed)), examined("h2"), other, **needs) == []


FINDINGS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "another minor Python, and no word of packages": (
        {"python": [3, 12, 1], "packages": {"nbdist": None}},
        "error",
        "Python 3.12.1 there, 3.11.7 in",
        "ssh h1 command -v python3.11, then name it with --remote-python",
    ),
    "all packages are put right by one command": (
        {"packages": {"nbdist": "0.1.0", "ipyparallel": "9.1.0"}},
        "error",
        "nbdist is 0.1.0, not 0.2.0; ipyparallel is 9.1.0, not 9.2.0",
        "ssh h1 /usr/bin/python3 -m pip install nbdist==0.2.0 ipyparallel==9.2.0",
    ),
    "a module of the distribution that it came with": (
        {"packages": {"ipyparallel": "9.1"}, "distributions": {"ipyparallel": "ipp"}},
        "error",
        "ipyparallel is 9.1, not 9.2.0",
        "ssh h1 /usr/bin/python3 -m pip install ipp==9.2.0",
    ),
    "a name that Debian's installer has given": (
        name("127.0.1.1", own=("127.0.1.1",)),
        "warning",
        "leads to 127.0.1.1, where no other",
        "ssh h1 \"sudo sed -i.bak 's/^127.0.1.1/10.0.0.11/' /etc/hosts\"",
    ),
    "a name that leads to loopback": (
        name("127.0.0.1", "::1", own=("127.0.0.1",)),
        "warning",
        "leads to 127.0.0.1, ::1,",
        "ssh h1 \"sudo sed -i.bak '/^127/s/ h1//; 1i 10.0.0.11 h1' /etc/hosts\"",
    ),
    "a name without an address": (
        name(error="Name or service not known"),
        "warning",
        "(Name or service not known)",
        "ssh h1 \"sudo sh -c 'echo 10.0.0.11 h1 >> /etc/hosts'\"",
    ),
    "a name of another machine": (
        name("10.0.0.99"),
        "warning",
        "leads to 10.0.0.99, which",
        "ssh h1 \"sudo sh -c 'echo 10.0.0.11 h1 >> /etc/hosts'\"",
    ),
    "device ids that JAX takes from a variable": (
        {"variables": {"JAX_LOCAL_DEVICE_IDS": "0,1"}},
        "warning",
        "only JAX_LOCAL_DEVICE_IDS misleads",
        "%dist_init --env JAX_LOCAL_DEVICE_IDS=",
    ),
    "proxies": (
        {"variables": {"HTTPS_PROXY": "http://p:3128", "no_proxy": "localhost"}},
        "warning",
        "HTTPS_PROXY set: ",
        "%dist_init --env HTTPS_PROXY=",
    ),
    "no room for temporary files": (
        {"temporary": FULL},
        "error",
        "/tmp: No space left",
        "ssh h1 du -xh --max-depth=1 /tmp, and make room; or set TMPDIR there",
    ),
    "room for them elsewhere": (
        {"temporary": {**FULL, "instead": "/root"}},
        "warning",
        "/root instead",
        "ssh h1 du -xh --max-depth=1 /tmp, and make room; or set TMPDIR there",
    ),
    "little room for temporary files": (
        {"temporary": {**FULL, "free": 20 << 20, "error": None}},
        "warning",
        "20 MB free in /tmp",
        "ssh h1 du -xh --max-depth=1 /tmp, and make room",
    ),
    "no working folder": (
        {"folder": {"path": "/home/ada/my work", "exists": False}},
        "error",
        "/home/ada/my work",
        "%dist_init --sync ., which brings it there; or %dist_init --cwd FOLDER, with a folder that is there",
    ),
    "a process that holds the TPU, and its lock": (
        {"holders": [HOLDER], "accelerators": CHIPS, **lock("ada")},
        "error",
        "process 77 (python train.py, user ada)",
        "ssh h1 kill 77",
    ),
    "a process of another user that holds the TPU": (
        {"holders": [{**HOLDER, "user": "bob"}], "accelerators": CHIPS},
        "error",
        "process 77",
        "ssh h1 sudo kill 77",
    ),
    "a lock that nobody holds": (
        {**lock("ada"), "accelerators": CHIPS},
        "warning",
        "owned by ada",
        f"ssh h1 rm {LOCK}",
    ),
    "a lock of another user": (
        {**lock("bob"), "accelerators": CHIPS},
        "error",
        "owned by bob",
        f"ssh h1 sudo rm {LOCK}",
    ),
    "a lock where there are no chips": (
        lock("bob"),
        "warning",
        "owned by bob",
        f"ssh h1 sudo rm {LOCK}",
    ),
    "a process left over": (
        {"leftovers": [{"pid": 9, "user": "ada", "command": "python -m nbdist.agent"}]},
        "warning",
        "process 9 (python -m nbdist.agent)",
        "ssh h1 kill 9",
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_one_thing_that_is_wrong_is_one_finding_with_what_to_type(case: str) -> None:
    changed, severity, what, do = FINDINGS[case]
    finding = only(found(examined(reported=facts(**changed))))
    assert (finding.severity, finding.do) == (severity, do)
    assert what in finding.what


def test_a_python_too_old_to_tell_more_is_judged_by_its_version_alone() -> None:
    reported = OldPython(python=(2, 7, 18), executable="/usr/bin/python")
    assert "Python 2.7.18" in only(found(examined(reported=reported))).what


THROUGH_SSH = "; or go through ssh: %dist_init --tunnel, and the same hosts"


@pytest.mark.parametrize(
    ("reached", "changed", "what", "do"),
    [
        ({"error": "No route"}, {}, "No route", "--add-source=10.0.0.11" + THROUGH_SSH),
        (
            {"error": "refused", "address": "127.0.0.1"},
            {},
            "(--tunnel): refused",
            "sshd_config where it says no; or start again, with other ports",
        ),
        (
            {"error": "timed out", "address": "192.168.0.5"},
            {"seen_as": OTHER_END},
            "at 192.168.0.5: timed out; it sees 10.0.0.77",
            "--controller-address" + THROUGH_SSH,
        ),
        ({"ms": 1.0, "address": "192.168.0.5"}, {"seen_as": OTHER_END}, None, ""),
    ],
)
def test_a_host_that_cannot_call_the_notebook_is_let_in_or_led_another_way(
    reached: dict[str, Any], changed: dict[str, Any], what: str | None, do: str
) -> None:
    here = kernel(firewalls=["firewall-cmd"])
    host = examined(reported=facts(**changed), reached={"this machine": reached})
    if what is None:
        assert found(host, here=here) == []
        return
    finding = only(found(host, here=here))
    assert (finding.severity, what in finding.what) == ("error", True)
    assert finding.do.endswith(do)
    # Hosts cannot reach processes here through ssh.
    computes = Examined(host="localhost", facts=here)
    assert THROUGH_SSH not in only(found(host, computes, here=here)).do


def test_ways_between_hosts_are_opened_on_the_other_side() -> None:
    reached = {"this machine": {"ms": 1.0}, "h2": {"error": "no answer"}}
    other = examined("h2", reported=facts("h2", address="10.0.0.12", firewalls=["ufw"]))
    finding = only(found(examined("h1", reached=reached), other))
    assert (finding.severity, finding.where) == ("error", "h1 → h2, any TCP port")
    assert finding.do == "ssh h2 sudo ufw allow from 10.0.0.11"
    blocked = examined(reached={"this machine": {"ms": 1}}, reachable={"error": "timed out"})
    assert only(found(blocked)).severity == "warning"
    here = kernel()
    finding = only(found(blocked, Examined(host="localhost", facts=here), here=here))
    assert finding.severity == "error"
    assert finding.do.startswith("ssh h1 sudo iptables -I INPUT -s 10.0.0.1 ")


@pytest.mark.parametrize(
    ("ahead", "within", "what"),
    [(1.3, 0.01, "1.3 s ahead of"), (-75, 0.0, "1 min 15 s behind"), (1.3, 0.5, ""), (0.9, 0, "")],
)
def test_clocks_surely_more_than_a_second_apart_are_reported(
    ahead: float, within: float, what: str
) -> None:
    findings = found(examined(clock=Clock(ahead_s=ahead, within_s=within)))
    assert len(findings) == bool(what)
    for finding in findings:
        assert what in finding.what
        assert finding.do.startswith("ssh h1 sudo timedatectl set-ntp true")


def test_a_host_without_a_module_gets_the_distribution_of_the_others() -> None:
    nightly = {"tensorflow": "2.22.0.dev20261101"}
    named = {"tensorflow": "tf-nightly"}
    here = kernel(packages=nightly, distributions=named)
    other = examined("h2", reported=facts("h2", packages=nightly, distributions=named))
    missing = examined(reported=facts(packages={"tensorflow": None}))
    finding = only(found(missing, other, here=here, framework="tensorflow"))
    assert finding.what == "tensorflow 2.22.0.dev20261101 is missing"
    assert finding.do.endswith("-m pip install tf-nightly==2.22.0.dev20261101")


def test_hosts_that_agree_on_another_jax_than_the_kernel_are_left_alone() -> None:
    other = {"jax": "0.11.0", "jaxlib": "0.11.0"}
    everyone = [examined(name, reported=facts(name, packages=other)) for name in ("h1", "h2")]
    assert found(*everyone) == []


def test_the_host_whose_jax_differs_gets_the_version_of_the_kernel() -> None:
    other = facts("h2", packages={"jax": "0.10.1"})
    finding = only(found(examined("h1"), examined("h2", reported=other)))
    assert (finding.host, finding.what) == ("h2", "jax is 0.10.1, not 0.10.2")


def test_without_jax_in_the_kernel_most_hosts_decide_on_the_version() -> None:
    reported = [facts("h1"), facts("h2"), facts("h3", packages={"jax": "0.10.1"})]
    everyone = [examined(each.host, reported=each) for each in reported]
    finding = only(found(*everyone, here=kernel(packages={"jax": None})))
    assert (finding.host, finding.what) == ("h3", "jax is 0.10.1, not 0.10.2")


@pytest.mark.parametrize(
    ("needs", "missing", "said"),
    [
        ({"framework": "tensorflow"}, "tensorflow", True),
        ({"framework": "jax"}, "tensorflow", False),
        ({"framework": "keras"}, "jax", True),
        ({"framework": "keras", "backend": "tensorflow"}, "jax", False),
        ({"framework": "keras", "backend": "tensorflow"}, "tensorflow", True),
        ({"framework": "jax"}, "keras", False),
    ],
)
def test_only_packages_of_the_framework_asked_for_are_missed(
    needs: dict[str, Any], missing: str, said: bool
) -> None:
    findings = found(examined(reported=facts(packages={missing: None})), **needs)
    assert [missing in finding.what for finding in findings] == [True] * said


def test_the_name_of_this_machine_is_no_matter_where_no_other_takes_part() -> None:
    here = kernel(name={"addresses": ["127.0.1.1"], "own": ["127.0.1.1"], "error": None})
    assert found(Examined(host="localhost", facts=here), here=here) == []


def test_this_machine_gets_the_address_at_which_a_host_sees_it() -> None:
    here = kernel(name={"addresses": ["127.0.1.1"], "own": ["127.0.1.1"], "error": None})
    finding = only(found(Examined(host="localhost", facts=here), examined(), here=here))
    assert finding.do == "sudo sed -i.bak 's/^127.0.1.1/10.0.0.1/' /etc/hosts"


@pytest.mark.parametrize(
    ("variables", "launcher", "under"),
    [
        ({"SLURM_JOB_ID": "12", "SLURM_PROCID": "0"}, "ssh", "Slurm"),
        ({"SLURM_JOB_ID": "12"}, "slurm", None),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "ssh", "Open MPI"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "mpi", None),
        ({"PMIX_RANK": "1"}, "slurm", None),
        ({"SLURM_JOB_ID": "12"}, "mpi", None),
        ({"TPU_WORKER_ID": "1"}, "ssh", "a TPU pod"),
        ({"MEGASCALE_SLICE_ID": "1"}, "ssh", "a TPU pod of several slices"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.5"}, "ssh", "Kubernetes"),
        ({"TPU_SKIP_MDS_QUERY": "1"}, "ssh", None),  # JAX's own, wherever it was imported
        ({"TPU_ML_PLATFORM": "Tensorflow", "TPU_ML_PLATFORM_VERSION": "2.21.0"}, "ssh", None),
        ({"JAX_COORDINATOR_ADDRESS": "h9:1"}, "ssh", "a JAX cluster"),
    ],
)
def test_variables_of_another_launcher_are_named_and_said_to_mislead_nobody(
    variables: dict[str, str], launcher: str, under: str | None
) -> None:
    findings = found(examined(reported=facts(variables=variables)), launcher=launcher)
    if under is None:
        assert findings == []
        return
    finding = only(findings)
    assert finding.severity == "warning"
    assert all(f"{name}={value}" in finding.what for name, value in variables.items())
    assert f"set, as under {under}; " in finding.what
    assert finding.do.endswith(f"unset {' '.join(variables)}")


@pytest.mark.parametrize("framework", ["jax", "keras", "tensorflow"])
def test_a_stray_tf_config_on_a_host_is_an_error_where_anything_reads_it(framework: str) -> None:
    reported = facts(variables={"TF_CONFIG": '{"task": {}}'})
    finding = only(found(examined(reported=reported), framework=framework))
    assert finding.severity == ("warning" if framework == "jax" else "error")
    assert 'TF_CONFIG is set ({"task": {}})' in finding.what
    assert finding.do.startswith("ssh h1 ")


def test_the_kernels_own_tf_config_is_left_to_the_plan_with_tensorflow() -> None:
    here = kernel(variables={"TF_CONFIG": "{}"})
    one = Examined(host="localhost", facts=here)
    assert found(one, here=here, framework="tensorflow") == []
    assert only(found(one, here=here)).do == "import os; os.environ.pop('TF_CONFIG')"


def test_an_option_of_the_compiler_that_one_host_has_alone_is_reported_there() -> None:
    reported = facts(
        "h3", variables={"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "JAX_DUMP_IR_TO": "d"}
    )
    finding = only(found(examined("h1"), examined("h2"), examined("h3", reported=reported)))
    assert (finding.host, finding.severity) == ("h3", "warning")
    assert finding.what.startswith("JAX_ENABLE_X64 is 1 there, and not set elsewhere")
    assert finding.do == "%dist_init --env JAX_ENABLE_X64=1"


def test_an_option_of_the_compiler_that_the_kernel_passes_on_is_the_same_on_all() -> None:
    reported = facts("h2", variables={"JAX_ENABLE_X64": "1"})
    here = kernel(variables={"JAX_ENABLE_X64": "0"})
    assert found(examined("h1"), examined("h2", reported=reported), here=here) == []


def test_memory_for_far_fewer_processes_than_asked_for_is_an_error() -> None:
    reported = facts(memory={"total": 2 << 30, "available": 500 << 20})
    assert found(examined(reported=reported, processes=3)) == []
    assert only(found(examined(reported=reported, processes=6))).severity == "error"
    finding = only(found(examined(reported=reported, processes=4)))
    assert finding.severity == "warning"
    assert finding.what == (
        "500 MB of memory available; 4 processes with jax need about 600 MB before they hold any data"
    )
    assert only(found(examined(reported=reported), framework="tensorflow")).severity == "error"
    assert found(examined(reported=reported, processes=2), launcher="slurm") != []


@pytest.mark.parametrize(
    ("up", "devices", "said"),
    [
        (
            ("jax", "tpu"),
            {"gpus": 0, "tpus": 4},
            "jax has started in this kernel and holds the TPU",
        ),
        (("jax", "gpu"), {"gpus": 2, "tpus": 0}, "and takes most of their memory"),
        (("jax", "cpu"), {"gpus": 2, "tpus": 4}, None),
        (("tensorflow", ""), {"gpus": 2, "tpus": 0}, "tensorflow has started in this kernel"),
        (("tensorflow", ""), {"gpus": 0, "tpus": 0}, None),
    ],
)
def test_a_back_end_of_the_kernel_is_an_error_where_it_holds_devices_of_the_processes(
    up: tuple[str, str], devices: dict[str, int], said: str | None
) -> None:
    backends = [{"framework": up[0], "platform": up[1]}]
    here = kernel(accelerators=devices, backends=backends)
    findings = found(Examined(host="localhost", facts=here), here=here)
    if said is None:
        assert findings == []
    else:
        assert said in only(findings).what
    assert found(examined(), here=here) == []
    assert found(Examined(host="localhost", facts=here), here=here, platform="cpu") == []


def test_errors_come_before_warnings() -> None:
    warned = facts("h1", variables={"http_proxy": "p"})
    broken = facts("h2", packages={"nbdist": None})
    findings = found(examined("h1", reported=warned), examined("h2", reported=broken))
    assert [finding.severity for finding in findings] == ["error", "warning"]
