"""From facts to findings: each thing that can be wrong, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.contract.checkup import OldPython
from nbdist.launch.doctor import Clock, Examined
from tests.builders.examined import examined, facts, found, kernel, only


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert found(examined("h1"), examined("h2")) == []


def test_a_host_that_has_told_nothing_is_not_judged() -> None:
    assert found(Examined(host="h1", shell="ssh h1 "), examined("h2")) == []


def test_another_minor_python_is_one_error_and_packages_are_not_spoken_of() -> None:
    reported = facts(python=[3, 12, 1], packages={"nbdist": None})
    finding = only(found(examined(reported=reported)))
    assert finding.severity == "error"
    assert finding.what.startswith("Python 3.12.1 there, 3.11.7 in this kernel")
    assert finding.do == "ssh h1 command -v python3.11, then name it with --remote-python"


def test_a_python_too_old_to_tell_more_is_judged_by_its_version_alone() -> None:
    reported = OldPython(python=(2, 7, 18), executable="/usr/bin/python")
    assert "Python 2.7.18" in only(found(examined(reported=reported))).what


def test_all_packages_of_one_host_are_put_right_by_one_command() -> None:
    assert found(examined(reported=facts(packages={"ipyparallel": "9.2.7"}))) == []
    reported = facts(packages={"nbdist": "0.1.0", "ipyparallel": "9.1.0"})
    finding = only(found(examined(reported=reported)))
    assert finding.what == "nbdist is 0.1.0, not 0.2.0; ipyparallel is 9.1.0, not 9.2.0"
    assert finding.where == "/usr/bin/python3 on h1"
    assert finding.do == ("ssh h1 /usr/bin/python3 -m pip install nbdist==0.2.0 ipyparallel==9.2.0")


def test_a_host_keeps_the_distribution_that_it_has_a_module_from() -> None:
    reported = facts(
        packages={"tensorflow": "2.20.0"}, distributions={"tensorflow": "tensorflow-cpu"}
    )
    finding = only(found(examined(reported=reported), examined("h2"), framework="tensorflow"))
    assert finding.what == "tensorflow is 2.20.0, not 2.21.0"
    assert finding.do.endswith("-m pip install tensorflow-cpu==2.21.0")


def test_a_host_without_a_module_gets_the_distribution_of_the_others() -> None:
    nightly = {"tensorflow": "2.22.0.dev20261101"}
    named = {"tensorflow": "tf-nightly"}
    here = kernel(packages=nightly, distributions=named)
    other = examined("h2", reported=facts("h2", packages=nightly, distributions=named))
    missing = examined(reported=facts(packages={"tensorflow": None}))
    finding = only(found(missing, other, here=here, framework="tensorflow"))
    assert finding.what == "tensorflow 2.22.0.dev20261101 is missing"
    assert finding.do.endswith("-m pip install tf-nightly==2.22.0.dev20261101")


def test_a_version_that_cannot_be_known_is_neither_missing_nor_wanted() -> None:
    unknown = facts("h2", packages={"tensorflow": ""})
    assert found(examined(), examined("h2", reported=unknown), framework="tensorflow") == []
    here = kernel(packages={"tensorflow": ""})
    assert (
        found(examined(), examined("h2", reported=unknown), here=here, framework="tensorflow") == []
    )


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


@pytest.mark.parametrize(
    ("name", "what", "do"),
    [
        (
            {"addresses": ["127.0.1.1"], "own": ["127.0.1.1"], "error": None},
            "leads to 127.0.1.1, where no other host reaches it",
            "ssh h1 \"sudo sed -i.bak 's/^127.0.1.1/10.0.0.11/' /etc/hosts\"",
        ),
        (
            {"addresses": ["127.0.0.1", "::1"], "own": ["127.0.0.1"], "error": None},
            "leads to 127.0.0.1, ::1,",
            "ssh h1 \"sudo sed -i.bak '/^127/s/ h1//; 1i 10.0.0.11 h1' /etc/hosts\"",
        ),
        (
            {"addresses": [], "own": [], "error": "Name or service not known"},
            "cannot be resolved (Name or service not known)",
            "ssh h1 \"sudo sh -c 'echo 10.0.0.11 h1 >> /etc/hosts'\"",
        ),
        (
            {"addresses": ["10.0.0.99"], "own": [], "error": None},
            "leads to 10.0.0.99, which is another machine's",
            "ssh h1 \"sudo sh -c 'echo 10.0.0.11 h1 >> /etc/hosts'\"",
        ),
    ],
)
def test_a_name_that_leads_elsewhere_is_a_warning(name: dict[str, Any], what: str, do: str) -> None:
    finding = only(found(examined(reported=facts(name=name))))
    assert finding.severity == "warning"
    assert what in finding.what
    assert finding.do == do


def test_the_name_of_this_machine_is_no_matter_where_no_other_takes_part() -> None:
    here = kernel(name={"addresses": ["127.0.1.1"], "own": ["127.0.1.1"], "error": None})
    assert found(Examined(host="localhost", facts=here), here=here) == []


def test_this_machine_gets_the_address_at_which_a_host_sees_it() -> None:
    here = kernel(name={"addresses": ["127.0.1.1"], "own": ["127.0.1.1"], "error": None})
    finding = only(found(Examined(host="localhost", facts=here), examined(), here=here))
    assert finding.do == "sudo sed -i.bak 's/^127.0.1.1/10.0.0.1/' /etc/hosts"


def test_one_connection_that_is_blocked_between_hosts_is_opened_on_the_other_side() -> None:
    reached = {"this machine": {"ms": 1.0}, "h2": {"error": "no answer within 1.5 s"}}
    other = examined("h2", reported=facts("h2", address="10.0.0.12", firewalls=["ufw"]))
    finding = only(found(examined("h1", reached=reached), other))
    assert finding.severity == "error"
    assert finding.what == "cannot connect to h2: no answer within 1.5 s"
    assert finding.where == "h1 → h2, any TCP port"
    assert finding.do == "ssh h2 sudo ufw allow from 10.0.0.11"


def test_a_host_that_cannot_call_the_notebook_is_let_in_on_this_machine() -> None:
    reached = {"this machine": {"error": "No route to host"}}
    here = kernel(firewalls=["firewall-cmd"])
    finding = only(found(examined(reached=reached), here=here))
    assert finding.what == "cannot connect to the notebook's machine: No route to host"
    opened = "sudo firewall-cmd --zone=trusted --add-source=10.0.0.11"
    assert finding.do == f"{opened}; or go through ssh: %dist_init --tunnel, and the same hosts"
    computes = Examined(host="localhost", facts=here)
    finding = only(found(examined(reached=reached), computes, here=here))
    assert finding.do == opened, "hosts cannot reach processes here through ssh"


def test_a_tunnel_that_ssh_does_not_make_is_reported_with_what_allows_it() -> None:
    reached = {"this machine": {"error": "Connection refused", "address": "127.0.0.1"}}
    finding = only(found(examined(reached=reached)))
    assert (
        finding.what == "ssh does not forward ports to this machine (--tunnel): Connection refused"
    )
    assert finding.do.startswith("ssh h1 sudo sshd -T") and "AllowTcpForwarding yes" in finding.do


def test_a_host_this_machine_cannot_call_is_an_error_only_where_this_machine_computes() -> None:
    blocked = examined(reached={"this machine": {"ms": 1}}, reachable={"error": "timed out"})
    finding = only(found(blocked))
    assert finding.severity == "warning"
    assert "no process runs on this machine" in finding.what
    here = kernel()
    finding = only(found(blocked, Examined(host="localhost", facts=here), here=here))
    assert finding.severity == "error"
    assert finding.do.startswith("ssh h1 sudo iptables -I INPUT -s 10.0.0.1 ")


def test_a_host_that_sees_another_machine_in_place_of_this_is_named() -> None:
    reported = facts(seen_as={"client": "10.0.0.77", "server": "10.0.0.11"})
    reached = {"this machine": {"error": "timed out", "address": "192.168.0.5"}}
    finding = only(found(examined(reported=reported, reached=reached)))
    assert finding.what.startswith(
        "cannot connect to the notebook's machine at 192.168.0.5: timed out; it sees 10.0.0.77 in its place"
    )
    assert "--controller-address" in finding.do and "--tunnel" in finding.do
    reached = {"this machine": {"ms": 1.0, "address": "192.168.0.5"}}
    assert found(examined(reported=reported, reached=reached)) == []


@pytest.mark.parametrize(
    ("ahead", "within", "said"),
    [(1.3, 0.01, "ahead of"), (-75.0, 0.01, "behind"), (1.3, 0.5, None), (0.9, 0.0, None)],
)
def test_clocks_surely_more_than_a_second_apart_are_reported(
    ahead: float, within: float, said: str | None
) -> None:
    findings = found(examined(clock=Clock(ahead_s=ahead, within_s=within)))
    if said is None:
        assert findings == []
    else:
        assert said in only(findings).what


def test_a_clock_is_reported_with_its_distance_and_what_sets_it() -> None:
    finding = only(found(examined(clock=Clock(ahead_s=-75.0, within_s=0.0))))
    assert finding.what.startswith("its clock is 1 min 15 s behind this machine's")
    assert finding.do == "ssh h1 sudo timedatectl set-ntp true, and the same here"


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
    assert "so that it is not misled" in finding.what
    assert finding.do == f"nothing; before scripts of your own: unset {' '.join(variables)}"


def test_tpu_variables_belong_on_a_machine_with_chips() -> None:
    reported = facts(variables={"TPU_WORKER_ID": "1"}, accelerators={"gpus": 0, "tpus": 4})
    assert found(examined(reported=reported)) == []


def test_device_ids_of_a_variable_are_said_to_be_taken() -> None:
    reported = facts(variables={"JAX_LOCAL_DEVICE_IDS": "0,1"})
    finding = only(found(examined(reported=reported)))
    assert "only JAX_LOCAL_DEVICE_IDS misleads it" in finding.what
    assert finding.do == "%dist_init --env JAX_LOCAL_DEVICE_IDS="


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


def test_proxies_are_named_and_left_out_by_an_option() -> None:
    reported = facts(variables={"HTTPS_PROXY": "http://p:3128", "no_proxy": "localhost"})
    finding = only(found(examined(reported=reported)))
    assert finding.severity == "warning"
    assert finding.what.startswith("HTTPS_PROXY set: ")
    assert finding.do == "%dist_init --env HTTPS_PROXY="


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


def test_memory_that_cannot_be_found_out_is_not_judged() -> None:
    reported = facts(memory={"total": None, "available": None})
    assert found(examined(reported=reported, processes=1000)) == []


def test_a_full_folder_for_temporary_files_is_an_error_where_there_is_no_other() -> None:
    full = {"path": "/tmp", "free": 0, "error": "No space left on device", "instead": None}
    finding = only(found(examined(reported=facts(temporary=full))))
    assert finding.severity == "error"
    assert finding.what == "no file can be written in /tmp: No space left on device"
    assert finding.do.startswith("ssh h1 du -xh --max-depth=1 /tmp")
    finding = only(found(examined(reported=facts(temporary={**full, "instead": "/root"}))))
    assert finding.severity == "warning"
    assert finding.what.endswith("; its files would go to /root instead")


def test_a_nearly_full_folder_for_temporary_files_is_a_warning() -> None:
    nearly = {"path": "/tmp", "free": 20 << 20, "error": None, "instead": None}
    finding = only(found(examined(reported=facts(temporary=nearly))))
    assert (finding.severity, finding.what) == ("warning", "20 MB free in /tmp")


def test_a_working_folder_that_is_not_there_is_an_error_as_it_is_of_a_start() -> None:
    reported = facts(folder={"path": "/home/ada/my work", "exists": False})
    finding = only(found(examined(reported=reported)))
    assert finding.severity == "error"
    assert finding.do.startswith("%dist_init --sync .")


CHIPS = {"gpus": 0, "tpus": 4}
HOLDER = {"pid": 77, "user": "ada", "command": "python train.py", "devices": ["/dev/accel0"]}


def test_a_process_that_holds_the_tpu_is_named_with_what_ends_it() -> None:
    finding = only(found(examined(reported=facts(holders=[HOLDER], accelerators=CHIPS))))
    assert finding.severity == "error"
    assert finding.what == "process 77 (python train.py, user ada) holds the TPU"
    assert (finding.where, finding.do) == ("/dev/accel0", "ssh h1 kill 77")
    other = {**HOLDER, "user": "bob"}
    assert (
        only(found(examined(reported=facts(holders=[other], accelerators=CHIPS)))).do
        == "ssh h1 sudo kill 77"
    )


@pytest.mark.parametrize(
    ("owner", "severity", "do"),
    [
        ("ada", "warning", "ssh h1 rm /tmp/libtpu_lockfile"),
        ("bob", "error", "ssh h1 sudo rm /tmp/libtpu_lockfile"),
    ],
)
def test_a_lock_of_libtpu_that_nobody_holds_is_to_be_removed(
    owner: str, severity: str, do: str
) -> None:
    reported = facts(locks=[{"path": "/tmp/libtpu_lockfile", "owner": owner}], accelerators=CHIPS)
    finding = only(found(examined(reported=reported)))
    assert (finding.severity, finding.where, finding.do) == (severity, "/tmp/libtpu_lockfile", do)


def test_a_lock_is_not_stale_while_a_process_holds_the_tpu() -> None:
    reported = facts(
        accelerators=CHIPS,
        holders=[HOLDER],
        locks=[{"path": "/tmp/libtpu_lockfile", "owner": "ada"}],
    )
    assert "holds the TPU" in only(found(examined(reported=reported))).what


def test_what_holds_devices_is_no_matter_without_chips_or_off_the_tpu() -> None:
    assert found(examined(reported=facts(holders=[HOLDER]))) == []
    assert (
        found(examined(reported=facts(holders=[HOLDER], accelerators=CHIPS)), platform="cpu") == []
    )
    lock = {"path": "/tmp/libtpu_lockfile", "owner": "bob"}
    assert only(found(examined(reported=facts(locks=[lock])))).severity == "warning"


def test_the_processes_of_a_session_that_runs_are_no_finding() -> None:
    reported = facts(
        accelerators=CHIPS, holders=[HOLDER], memory={"total": 1 << 30, "available": 0}
    )
    assert found(examined(reported=reported), starting=False) == []


def test_processes_left_over_from_an_earlier_session_are_named() -> None:
    process = {"pid": 9, "user": "ada", "command": "python -m nbdist.agent"}
    finding = only(found(examined(reported=facts(leftovers=[process]))))
    assert finding.severity == "warning"
    assert finding.do == "ssh h1 kill 9"


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
