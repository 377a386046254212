"""Who can be replaced, and which names are in doubt on those that were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.contract.cells import Doubt
from nbdist.session.recovery import replacing
from nbdist.session.recovery.replacing import doubts, replaceable, start_again
from nbdist.session.values.namespace import Brought
from tests.builders.engines import FakeEngines

KILLED = "killed by signal 9 (SIGKILL)"


def engines(**facts: object) -> FakeEngines:
    """Two processes, of which the second has ended; another can be started beside the first."""
    found = FakeEngines()
    found.hosts_there = True
    found.facts = replace(found.facts, **{"lost": {1: KILLED}, **facts})  # type: ignore[arg-type]
    return found


def test_one_that_has_ended_can_be_replaced() -> None:
    assert replaceable(engines()) == {1}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"lost": {0: KILLED, 1: KILLED}}, id="nobody has lived on"),
        pytest.param({"silent": {"h1": 0.0}}, id="a host does not answer"),
        pytest.param({"unreachable": frozenset({1})}, id="its host is gone"),
        pytest.param({"lost": {}}, id="all live"),
    ],
)
def test_none_is_replaced_where_that_cannot_succeed(facts: dict[str, object]) -> None:
    assert replaceable(engines(**facts)) == frozenset()  # type: ignore[arg-type]


def test_what_a_new_one_reports_is_not_taken_for_what_the_one_before_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A repair that did not come to its end has brought it the names of another, which agree with that one's."""
    monkeypatch.setattr(replacing, "end_processes", lambda cluster, process_ids: None)
    monkeypatch.setattr(replacing, "replace_processes", lambda cluster, process_ids, progress: None)
    found = engines()
    found.reported = {}
    found.monitor.samples = lambda process_id: {"of": "the one before"}
    assert start_again(found, {1}) == {1: {"of": "the one before"}}  # type: ignore[arg-type]
    found.monitor.samples = lambda process_id: {"of": "the new one"}
    assert start_again(found, {1}) == {1: {"of": "the one before"}}  # type: ignore[arg-type]


def test_where_unsure_names_are_from_is_said() -> None:
    two = Brought(source=0, names=(), unproven=("x", "y"))
    found = {1: replace(two, unproven=("x",)), 2: two, 3: two}
    assert doubts(found) == dict.fromkeys("xy", Doubt(kind="copied", of=0))
