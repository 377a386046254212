"""On which plan a session goes on with another number of processes, or without a host."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.errors import GoneError, OptionError
from nbdist.launch.model.plan import Plan
from nbdist.session import resizing
from tests.builders.engines import FakeEngines, sent
from tests.builders.hosts import plan_of

HERE = plan_of(processes=2)


@pytest.mark.parametrize("count", [1, 5])
def test_all_processes_of_another_number_are_alike_and_numbered(count: int) -> None:
    found = resizing.planned(HERE, count)
    assert [p.process_id for p in found.processes] == list(range(count))
    assert [p.slot for p in found.processes] == list(range(count))
    assert {(p.host, p.devices, p.role) for p in found.processes} == {
        (HERE.processes[0].host, 1, "worker")
    }


def test_without_a_host_the_numbers_stay_dense() -> None:
    found = resizing.planned_without(plan_of("h1", "h2", "h3"), ["h2"])
    assert found.hosts == {0: "h1", 1: "h3"}
    assert [host.name for host in found.placement.hosts] == ["h1", "h3"]


@pytest.mark.parametrize(
    ("asked", "count", "said"),
    [
        (HERE, 0, "-n 0: the number of processes must be 1 or more"),
        (HERE, 2, "-n 2: there are 2 already"),
        (
            plan_of("h1", "h2"),
            3,
            "-n 3: the processes are on hosts h1, h2. %dist_recover leaves hosts out",
        ),
    ],
)
def test_a_number_that_cannot_be_is_refused(asked: Plan, count: int, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        resizing.planned(asked, count)
    assert said in str(refused.value)


def test_hosts_that_are_not_there_and_all_of_them_are_refused() -> None:
    both = plan_of("h1", "h2")
    with pytest.raises(OptionError, match=r"--without h9: the hosts of this session are h1, h2"):
        resizing.planned_without(both, ["h9"])
    with pytest.raises(OptionError, match="no host would be left"):
        resizing.planned_without(both, ["h1", "h2"])


@pytest.mark.parametrize(
    ("says", "found"),
    [(sent(), [1, 0]), (GoneError("process 0 has ended."), [1])],
)
def test_one_that_is_left_out_is_a_source_only_if_it_lives(says: Any, found: list[int]) -> None:
    engines: Any = FakeEngines(step=lambda p, **_: says if p == 0 else sent())
    assert resizing.sources(engines, ["h1"]) == found
