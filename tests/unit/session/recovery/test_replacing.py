"""Who can be replaced, and what is said of those that were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.contract.cells import Doubt
from nbdist.session.recovery import replacing
from nbdist.session.recovery.replacing import doubts, replaceable, replacement_lines, start_again
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


def test_equal_ends_are_said_once() -> None:
    one = Brought(source=0, names=("a", "b"))
    lines = replacement_lines(
        {1: one, 2: one, 3: one}, {1: KILLED, 2: KILLED, 3: "ended with exit code 3"}
    )
    assert lines == [
        f"   processes 1, 2 (before: {KILLED}) each have the 2 names of process 0",
        "   process 3 (before: ended with exit code 3) has the 2 names of process 0",
    ]


def test_where_unsure_names_are_from_is_said() -> None:
    two = Brought(source=0, names=(), unproven=("x", "y"))
    found = {1: replace(two, unproven=("x",)), 2: two, 3: two}
    assert doubts(found) == dict.fromkeys("xy", Doubt(kind="copied", of=0))


def test_what_is_not_as_before_is_said_in_a_few_lines() -> None:
    one = Brought(
        source=0,
        names=(),
        differing=("rows", "x"),
        unproven=("k",),
        changed=("step",),
        elsewhere={"z": 2},
        set_again=("rows",),
    )
    assert replacement_lines({1: one}, {1: KILLED})[1:] == [
        "   k, x were copied from process 0. If each process should have its own, set them again.",
        "   step: set by the last cell; on process 1 as on process 0",
        "   z: not on process 0, so not on process 1 either",
        "   rows: set again by functions with @nbdist.on_recover",
    ]
    many = tuple(f"n{k}" for k in range(500))
    assert len("\n".join(replacement_lines({1: replace(one, differing=many)}, {1: KILLED}))) < 500
