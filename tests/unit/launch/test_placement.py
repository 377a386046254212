"""From the options that say where processes run to a placement, and a plan that loses a host."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.errors import HostError, LaunchError, OptionError
from nbdist.launch import planning
from nbdist.launch.launchers import ssh as reach
from nbdist.launch.model.hosts import SshOptions, parse_hosts
from nbdist.launch.model.plan import Placement, plan_for
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import choose_placement
from nbdist.machine.ports import LOOPBACK
from nbdist.starting import _without


def test_without_hosts_all_is_on_this_machine_and_nothing_else_can_be_said() -> None:
    assert choose_placement(StartOptions()) == Placement()
    assert Placement().on_this_machine


@pytest.mark.parametrize(("asked", "used"), [(None, LOOPBACK), ("10.0.0.1", "10.0.0.1")])
def test_the_address_that_a_launcher_chooses_is_used_unless_a_person_names_one(
    asked: str | None, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Placement(launcher="mpi", controller_address=LOOPBACK)
    mpi = SimpleNamespace(options="", placement=lambda *_: chosen)
    monkeypatch.setattr(planning, "launcher", lambda name: mpi)
    assert choose_placement(StartOptions(mpi=True, controller_address=asked)) == replace(
        chosen, controller_address=used
    )


@pytest.mark.parametrize(
    "option",
    [
        {"ssh_config": "config"},
        {"remote_python": "python"},
        {"min_hosts": 1},
        {"min_hosts": 0},
        {"cwd": "/"},
        {"controller_address": "10.0.0.1"},
    ],
)
def test_options_for_hosts_are_refused_where_none_are_named(option: dict[str, Any]) -> None:
    ((name, value),) = option.items()
    said = f"--{name.replace('_', '-')} {value}: for hosts only; name them with --hosts"
    with pytest.raises(OptionError, match=said):
        choose_placement(StartOptions(**option))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hosts": "h1", "hosts_file": "f"}, "--hosts and --hosts-file both name the hosts"),
        ({"hosts": "h1", "ssh_config": "/nowhere"}, "--ssh-config /nowhere: there is no such file"),
        ({"hosts": "h1,h2", "min_hosts": 3}, "--min-hosts 3 with 2 hosts: expected 1 to 2"),
        ({"tunnel": True}, "--tunnel: for hosts only; name them with --hosts"),
        ({"hosts": "h1", "tunnel": True, "controller_address": "10.0.0.1"}, "--tunnel: .* leave"),
        ({"hosts": "h1,localhost", "tunnel": True}, r"--tunnel: .*this machine \(localhost\)"),
        ({"slurm": True, "nodes": 1, "tunnel": True}, "--tunnel goes through ssh to each host"),
        ({"hosts": "h1,h2", "min_hosts": 0}, "--min-hosts 0 with 2 hosts: expected 1 to 2"),
        ({"nodes": 2}, "--nodes: for --slurm only"),
        ({"mpi": True, "slurm_options": ["--mem=1G"]}, "--slurm-option: for --slurm only"),
        ({"mpirun": "/opt/mpirun"}, "--mpirun: for --mpi only"),
        ({"mpi_options": ["-x"], "slurm": True}, "--mpi-option: for --mpi only"),
        ({"slurm": True, "mpi": True}, "--slurm and --mpi both start the processes"),
        ({"mpi": True, "hosts": "h1", "min_hosts": 1}, "--min-hosts 1: with --mpi all"),
        ({"slurm": True, "hosts": "node[01-64]:2,m"}, r"--nodelist=node\[01-64\],m$"),
        ({"zone": "z"}, "--zone z: for TPUs only"),
        ({"tpu": "here", "hosts": "h1"}, "--tpu finds the hosts by itself"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_started(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        choose_placement(StartOptions(**options))


def test_hosts_are_reached_with_ssh_and_run_this_kernels_python_unless_another_is_named(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config"
    config.touch()
    placed = choose_placement(
        StartOptions(hosts="h1:2,h2", ssh_config=str(config), min_hosts=1, cwd="/w")
    )
    assert placed == Placement(
        launcher="ssh",
        hosts=parse_hosts("h1:2,h2"),
        ssh=SshOptions(python=sys.executable, config=str(config)),
        min_hosts=1,
        cwd="/w",
    )
    assert not placed.on_this_machine
    other = choose_placement(StartOptions(hosts="h1", remote_python="/opt/python"))
    assert other.ssh == SshOptions(python="/opt/python")
    assert choose_placement(StartOptions(hosts="localhost:2")).on_this_machine


def test_a_plan_without_a_host_has_dense_ids_and_no_longer_asks_for_it() -> None:
    placement = Placement(launcher="ssh", hosts=parse_hosts("h1,h2:2,h3"), min_hosts=2)
    hosts = [("h1", 1), ("h2", 2), ("h3", 1)]
    plan = plan_for(
        hosts=hosts,
        devices_per_process=None,
        platform="cpu",
        accelerators=None,
        placement=placement,
    )
    less = _without(plan, HostError("gone", host="h2"))
    assert less.hosts == {0: "h1", 1: "h3"}
    assert [process.task_index for process in less.processes] == [0, 1]
    assert [host.name for host in less.placement.hosts] == ["h1", "h3"]
    with pytest.raises(HostError, match="one more"):
        _without(less, HostError("one more", host="h3"))


def test_hosts_that_are_reached_from_different_addresses_need_one_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways = {"192.0.2.1": "10.0.0.1", "192.0.2.2": "10.0.0.2", "127.0.0.1": "127.0.0.1"}
    monkeypatch.setattr(reach, "own_address", ways.get)
    monkeypatch.setattr(reach, "ssh_target", lambda host, options: (host.name, 22))
    two = Placement(launcher="ssh", hosts=parse_hosts("192.0.2.1,192.0.2.2"))
    with pytest.raises(LaunchError, match=r"192\.0\.2\.2 from 10\.0\.0\.2.*--controller-address"):
        reach.controller_address(two)
    one = Placement(launcher="ssh", hosts=parse_hosts("localhost,192.0.2.2,behind-another"))
    assert reach.controller_address(one) == "10.0.0.2"
    named = Placement(launcher="ssh", hosts=two.hosts, controller_address="10.0.0.9")
    assert reach.controller_address(named) == "10.0.0.9"
