"""What the hosts of a start have told of themselves, judged before any process is started."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.checkup import Checkup, Connection
from nbdist.contract.wire import encode
from nbdist.errors import HostError, LaunchError
from nbdist.launch.model.hosts import HostInfo
from nbdist.launch.start import preflight
from nbdist.launch.start.preflight import MOST_TARGETS, Preflight, targets, unreached
from nbdist.version import __version__
from tests.builders.examined import facts, kernel
from tests.builders.hosts import KERNEL_ADDRESS, FakeHosts, plan_of

PACKAGES = {"nbdist": __version__}


def reported(name: str, *, listening: int | None = 5000, **changed: Any) -> HostInfo:
    """What a host has said, with its checks."""
    return HostInfo(
        host=name,
        pid=1,
        nbdist=__version__,
        folder="/f",
        cwd="/",
        address="192.0.2.11",
        listening=listening,
        ports=(),
        checks=facts(name, packages=PACKAGES, **changed),
        asked_s=999.0,
        received_s=1001.0,
    )


def judge(
    monkeypatch: pytest.MonkeyPatch, *names: str, here: Checkup | None = None, **hosts: Any
) -> Any:
    found = here if here is not None else kernel(packages=PACKAGES)
    monkeypatch.setattr(preflight, "kernel_facts", lambda asked: found)
    return Preflight(plan_of(*names), KERNEL_ADDRESS).judge(hosts)


def test_where_all_is_well_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(monkeypatch, "h1", "h2", h1=reported("h1"), h2=reported("h2")) == []


def test_a_host_that_has_told_nothing_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(monkeypatch, "h1", h1=structs.replace(reported("h1"), checks=None)) == []


def test_what_a_host_lacks_is_an_error_with_its_name_before_it_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = facts("h2", packages={**PACKAGES, "jax": None})
    lacking = structs.replace(reported("h2"), checks=checks)
    with pytest.raises(HostError, match=r"^Host h2 cannot take part\.\n") as error:
        judge(monkeypatch, "h1", "h2", h1=reported("h1"), h2=lacking)
    assert error.value.host == "h2"
    assert "jax" in str(error.value) and "ssh h2 " in str(error.value)


def test_what_this_machine_lacks_is_no_error_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LaunchError, match=r"^The processes were not started\.\n") as error:
        judge(monkeypatch, here=kernel(packages={**PACKAGES, "jax": None}))
    assert not isinstance(error.value, HostError)


def test_what_is_no_hindrance_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    (warning,) = judge(monkeypatch, "h1", h1=reported("h1", time=1000.0 + 3600))
    assert (warning.severity, warning.host) == ("warning", "h1")


def test_the_start_itself_says_what_was_found(
    hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "kernel_facts", lambda asked: kernel(packages=PACKAGES))
    lacking = facts("h2", packages={**PACKAGES, "jax": None})
    hosts.does["h2", "assign"] = lambda agent, order: hosts.introduce(
        agent, order, checks=encode(lacking)
    )
    with pytest.raises(HostError, match=r"^Host h2 cannot take part\."):
        hosts.start(plan_of("h1", "h2"))
    assert hosts.agents["h1"].ordered("start") == []
    assert hosts.left() == []


def test_only_the_first_hosts_are_to_be_reached_by_all() -> None:
    many = {f"h{n}": reported(f"h{n}", listening=5000 + n) for n in range(2 * MOST_TARGETS)}
    many["h0"] = reported("h0", listening=None)
    assert [port for _, port in targets(many)] == list(range(5001, 5001 + MOST_TARGETS))


HOSTS = {"h1": reported("h1"), "h2": reported("h2", listening=None), "h3": reported("h3")}
FAILED = Connection(error="timed out")
WELL = Connection(ms=100.0)


@pytest.mark.parametrize(
    ("host", "answers", "name"),
    [
        ("h3", [WELL, WELL], None),
        ("h2", [WELL, FAILED], "h3"),
        ("h1", [FAILED, WELL], None),
        ("h1", [FAILED, FAILED], "h3"),
        ("h2", [], None),
    ],
    ids=["all reached", "a host behind one that does not listen", "itself", "both", "no answer"],
)
def test_a_host_that_does_not_reach_another_is_named_with_it(
    host: str, answers: list[Connection], name: str | None
) -> None:
    found = unreached(HOSTS, host, answers)
    assert (found and found[0]) == name
    if found is not None:
        assert found[1].startswith(
            f"Host {host} cannot connect to host {name} at 192.0.2.11: timed out."
        )
