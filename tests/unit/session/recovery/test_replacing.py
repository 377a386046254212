"""Who can be replaced, and what is said of those that were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.session.recovery import replacing
from nbdist.session.recovery.replacing import replaceable, said, start_again, unsure
from nbdist.values.namespace import Brought
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
    monkeypatch.setattr(replacing, "end", lambda link, process_ids: None)
    monkeypatch.setattr(replacing, "replace", lambda link, process_ids, progress: None)
    found = engines()
    found.reported = {}
    found.monitor.samples = lambda process_id: {"of": "the one before"}
    assert start_again(found, {1}) == {1: {"of": "the one before"}}  # type: ignore[arg-type]
    found.monitor.samples = lambda process_id: {"of": "the new one"}
    assert start_again(found, {1}) == {1: {"of": "the one before"}}  # type: ignore[arg-type]


def test_equal_ends_are_said_once() -> None:
    one = Brought(source=0, names=("a", "b"))
    lines = said({1: one, 2: one, 3: one}, {1: KILLED, 2: KILLED, 3: "ended with exit code 3"})
    assert lines == [
        f"   processes 1, 2 (before: {KILLED}) each have the 2 names of process 0",
        "   process 3 (before: ended with exit code 3) has the 2 names of process 0",
    ]


def test_where_unsure_names_are_is_said() -> None:
    two = Brought(source=0, names=(), alone=("x", "y"))
    found = {1: replace(two, alone=("x",)), 2: two, 3: two}
    assert unsure(found) == {
        "x": "on processes 1–3 as on process 0",
        "y": "on processes 2, 3 as on process 0",
    }


def test_names_that_functions_have_set_again_are_said_to_be() -> None:
    one = Brought(
        source=0,
        names=(),
        differing=("rows", "x"),
        doubtful=("n",),
        alone=("k",),
        set_again=("rows",),
    )
    assert said({1: one}, {1: KILLED})[1:] == [
        "   n: 0 on process 0, and now on process 1, too; set it again if it is meant to be the number of each "
        "process",
        "   k: as on process 0; nothing says whether process 1 had the same. Set again what was to be each "
        "process's own",
        "   x: not the same on all processes; on process 1 as on process 0",
        "   rows: set again by functions with @nbdist.on_recover",
    ]
