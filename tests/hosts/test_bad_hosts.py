"""Hosts that cannot take part: one clear error each, soon, and nothing left; or the others go on."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

import nbdist
from nbdist.errors import HostError
from tests.hosts.left import Left
from tests.testbed.hosts import TestBed

SOON_SECONDS = 30.0
OTHER_PYTHON = str(Path(sys.base_prefix, "bin", "python3"))
"""It runs on the hosts, and has no packages."""


def refused(bed: TestBed, left: Left, hosts: str, **options: Any) -> HostError:
    """The error of a start that must fail soon and leave nothing."""
    began = time.monotonic()
    with pytest.raises(HostError) as caught:
        nbdist.start(hosts=hosts, ssh_config=str(bed.ssh_config), **options)
    assert time.monotonic() - began < SOON_SECONDS
    left.nothing()
    return caught.value


@pytest.mark.parametrize(
    ("name", "said", "typed"),
    [
        ("nosuchhost", "Could not resolve hostname nosuchhost.invalid", "getent hosts nosuchhost"),
        ("wrongkey", "Permission denied (publickey)", "ssh-copy-id -F {config} wrongkey"),
        ("unknownkey", "Host key verification failed", "ssh -F {config} unknownkey"),
        ("dead", "port 22: Connection timed out", "ssh -F {config} dead"),
    ],
    ids=["unknown host", "wrong key", "unknown host key", "dead address"],
)
def test_a_host_that_ssh_does_not_reach_is_named_in_sshs_own_words_with_what_to_type(
    hosts: TestBed,
    left: Left,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    said: str,
    typed: str,
) -> None:
    error = refused(hosts, left, f"h1:1,{name}:1")
    assert error.host == name
    assert f"Host {name}: ssh does not work" in str(error)
    assert said in str(error)
    assert typed.format(config=hosts.ssh_config) in str(error)


@pytest.mark.parametrize(
    ("python", "said", "typed"),
    [
        ("/nowhere/python", "there is no Python at /nowhere/python", "with remote_python"),
        (
            OTHER_PYTHON,
            f"{OTHER_PYTHON} there has no nbdist",
            f"{OTHER_PYTHON} -m pip install nbdist==",
        ),
        ("/bin/false", "ended with exit code 1", "/bin/false -V"),
    ],
    ids=["no python", "no nbdist", "no working python"],
)
def test_a_host_without_the_python_or_the_package_is_reported_with_what_to_install_or_name(
    hosts: TestBed, left: Left, python: str, said: str, typed: str
) -> None:
    error = refused(hosts, left, "h2:1", remote_python=python)
    assert error.host == "h2"
    assert said in str(error)
    assert typed in str(error)


def test_one_bad_host_of_three_is_the_end_of_all_where_all_are_wanted(
    hosts: TestBed, left: Left
) -> None:
    assert refused(hosts, left, "h1:1,wrongkey:1,h3:2").host == "wrongkey"
    assert refused(hosts, left, "wrongkey:1,h1:1,nosuchhost:1", min_hosts=2).host in (
        "wrongkey",
        "nosuchhost",
    )


def test_with_min_hosts_the_others_go_on_with_dense_ids_and_the_bad_one_is_reported(
    hosts: TestBed, left: Left
) -> None:
    with nbdist.start(
        hosts="h1:1,nosuchhost:1,h3:2", ssh_config=str(hosts.ssh_config), min_hosts=2
    ) as session:
        assert session.hosts == {0: "h1", 1: "h3", 2: "h3"}
        (remark,) = session.remarks
        assert remark.startswith("Left out: Host nosuchhost: ssh does not work")
        session.run("import jax\nids = (jax.process_index(), jax.process_count())")
        assert [session.pull("ids", on=str(p)) for p in range(3)] == [(0, 3), (1, 3), (2, 3)]
    left.nothing()
