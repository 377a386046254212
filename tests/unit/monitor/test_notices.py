from __future__ import annotations

import pytest
from msgspec import structs

from nbdist.contract.snapshot import Axis, Mesh, Version
from nbdist.errors import Notice
from nbdist.monitor.states import Failure, Known, trouble
from nbdist.view.status import summary_text
from tests.builders.reports import (
    IDLE,
    KEYS,
    NOW,
    RUNNING,
    Session,
    named,
    report,
)


def test_a_different_spec_is_two_arrays_and_a_disagreement():
    other = named(spec=(("data",), ()))
    snapshot = Session(*(report(n, other if n == 2 else named()) for n in range(4))).settled()
    assert snapshot.arrays == (
        structs.replace(named(), processes=(0, 1, 3)),
        structs.replace(other, processes=(2,)),
    )
    [disagreement] = snapshot.disagreements
    assert disagreement.about == "array w"
    assert disagreement.versions == (
        Version(processes=(0, 1, 3), value="f32[512, 256] P('data', 'model')"),
        Version(processes=(2,), value="f32[512, 256] P('data', None)"),
    )


@pytest.mark.parametrize(
    ("other", "values"),
    [
        (
            named(spec=(("data",), ()), mesh="f"),
            ["on mesh data=4 × model=2 in device", "on mesh data=8 in device memory"],
        ),
        (named(spec=(("data",), ()), mesh="t"), ["memory", "memory over other devices"]),
    ],
)
def test_versions_that_would_read_alike_are_made_different(other, values):
    first = named(spec=(("data",), ()))
    snapshot = Session(*(report(n, first if n < 3 else other) for n in range(4))).settled()
    [disagreement] = snapshot.disagreements
    texts = [version.value for version in disagreement.versions]
    assert texts[0] != texts[1]
    assert all(value in text for value, text in zip(values, texts, strict=True))


def test_a_spanning_array_that_some_lack_is_a_disagreement():
    snapshot = Session(*(report(n, *[named()] * (n < 3)) for n in range(4))).settled()
    assert snapshot.arrays[0].processes == (0, 1, 2)
    [disagreement] = snapshot.disagreements
    assert disagreement.versions[1] == Version(processes=(3,), value="missing")


def test_arrays_within_each_process_may_lie_differently_but_not_differ_in_type():
    local = [
        Mesh(id=f"l{n}", axes=(Axis(name="d", size=2, type="auto"),), devices=KEYS[2 * n :][:2])
        for n in range(4)
    ]

    def reports(shapes):
        return [
            report(n, named(spec=(("d",), ()), mesh=f"l{n}", shape=shapes[n]), meshes=(local[n],))
            for n in range(4)
        ]

    same = Session(*reports([(8, 8)] * 4)).settled()
    assert len(same.arrays) == 4
    assert same.disagreements == ()
    [disagreement] = Session(*reports([(8, 8)] * 3 + [(4, 8)])).settled().disagreements
    assert [version.value for version in disagreement.versions] == ["f32[8, 8]", "f32[4, 8]"]


def test_a_difference_counts_only_after_it_has_lasted():
    session = Session(*(report(n, *[named()] * (n < 3)) for n in range(4)))
    known = Known()
    assert session.merger.snapshot(known, time_s=NOW).disagreements == ()
    assert session.merger.snapshot(known, time_s=NOW + 1.9).disagreements == ()
    session.take(report(3, named(), sequence=2))
    assert session.merger.snapshot(known, time_s=NOW + 2.5).disagreements == ()
    session.take(report(3, sequence=3))
    assert session.merger.snapshot(known, time_s=NOW + 3).disagreements == ()
    # They say the same again: what is old is not compared.
    session.take(*(report(n, *[named()] * (n < 3), sequence=4) for n in range(4)), at=NOW + 4)
    assert len(session.merger.snapshot(known, time_s=NOW + 5).disagreements) == 1


def test_processes_in_different_lines_are_not_compared():
    ahead = structs.replace(RUNNING, line=5, context_mesh="m")
    session = Session(report(0, named(), activity=ahead), report(1, activity=RUNNING))
    assert session.settled().disagreements == ()
    session.take(report(0, named(), activity=RUNNING, sequence=2))
    assert len(session.settled().disagreements) == 1


def test_meshes_in_context_that_differ_are_named():
    contexts = ["m", "m", "f", None]
    snapshot = Session(
        *(report(n, activity=structs.replace(IDLE, context_mesh=contexts[n])) for n in range(4))
    ).settled()
    [disagreement] = snapshot.disagreements
    assert disagreement.about == "mesh in context"
    assert [(version.processes, version.value) for version in disagreement.versions] == [
        ((0, 1), "data=4 × model=2"),
        ((2,), "data=8"),
        ((3,), "none"),
    ]


@pytest.mark.parametrize("host", ["", "h2"])
def test_trouble_is_worded_with_the_host_where_there_are_several(host):
    some = Session(*(report(n, activity=RUNNING) for n in range(4)), count=4).settled().processes
    states = ("failed", "lost", "stuck", "running")
    one, *others = (
        structs.replace(each, host="vm", state=state, error="E: x")
        for each, state in zip(some, states, strict=True)
    )
    processes = (structs.replace(one, host=host or "vm", line=2, source="f()"), *others)
    found = trouble(processes, Known(silent={"vm": NOW - 5}), time_s=NOW)
    assert {notice.level for notice in found} == {"bad"}
    on, at = (" on vm", f" ({host})") if host else ("", "")
    there = "Processes 1–3" if host else "Processes 0–3"
    assert [(notice.title, notice.text) for notice in found] == [
        (
            "Process 0 raised, process 3 still in the cell.",
            f"On process 0{at}: E: x in line 2, f(). Process 3 is in line 4, loss = step(x) for 3.0 s.",
        ),
        ("Process 1 is lost.", f"Process 1{on}: E: x."),
        (
            "Process 2 is stuck.",
            f"Process 2{on} was interrupted and has not stopped; it is in line 4, loss = step(x).",
        ),
        (
            "Host vm does not answer.",
            "It has sent nothing for 5.0 s: it is cut off, overloaded, or stopped. "
            f"{there} there may still be running.",
        ),
    ]


def test_a_process_that_raised_shows_where_and_when_the_others_leave():
    session = Session(report(1), *(report(n, activity=RUNNING) for n in (0, 2, 3)))
    failure = Failure(error="ValueError: empty batch", cell=12, line=2, source="x = next(b)")
    snapshot = session.settled(failed={1: failure}, ends_at=NOW + 4)
    process = snapshot.processes[1]
    assert (process.state, process.line, process.error) == ("failed", 2, failure.error)
    assert (snapshot.state, snapshot.recovers_at) == ("recovering", NOW + 4)
    assert len(snapshot.notices) == 1
    assert summary_text(snapshot).startswith("recovering in 2 s   4 processes")


def test_where_one_resists_the_session_is_stuck_and_counts_nothing_down():
    session = Session(*(report(n, activity=RUNNING) for n in range(4)))
    failed = {1: Failure(error="E: x")}
    snapshot = session.settled(failed=failed, stuck=frozenset({2}), ends_at=NOW - 9)
    assert (snapshot.state, snapshot.recovers_at) == ("stuck", None)
    assert summary_text(snapshot).startswith("stuck   4")


def test_a_failure_with_nobody_inside_does_not_make_the_session_stuck():
    snapshot = Session(*(report(n) for n in range(4))).settled(failed={1: Failure(error="E: x")})
    assert snapshot.state == "idle"


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({}, "running"),
        ({"out_of_step": True}, "out of step"),
        ({"stuck": frozenset({2}), "out_of_step": True}, "stuck"),
        ({"stopped": True, "lost": {0: "gone"}}, "stopped"),
    ],
)
def test_the_state_of_the_session_is_what_matters_most(known, state):
    session = Session(*(report(n, activity=RUNNING) for n in range(4)))
    assert session.settled(**known).state == state


def test_a_stuck_process_keeps_its_line():
    session = Session(*(report(n, activity=RUNNING) for n in range(4)))
    snapshot = session.settled(stuck=frozenset({2}))
    assert (snapshot.processes[2].state, snapshot.processes[2].line) == ("stuck", 4)


@pytest.mark.parametrize(
    ("activity", "state"),
    [
        (structs.replace(IDLE, run=7), "idle"),
        (structs.replace(IDLE, run=6), "stuck"),  # from before the cell
        (structs.replace(IDLE, run=None), "stuck"),
        (structs.replace(RUNNING, run=7), "stuck"),
    ],
)
def test_a_stuck_process_is_so_until_it_reports_that_it_has_left_its_cell(activity, state):
    session = Session(*(report(n, activity=activity) for n in range(4)))
    snapshot = session.settled(stuck=frozenset({2}), stuck_in={2: 7}, out_of_step=True)
    assert snapshot.processes[2].state == state
    assert snapshot.state == ("out of step" if state == "idle" else "stuck")
    assert any("stuck" in n.title for n in snapshot.notices) is (state == "stuck")


def test_while_others_are_freed_from_the_cell_of_a_lost_process_only_the_loss_is_said():
    session = Session(*(report(n, activity=RUNNING) for n in range(4)))
    known = {"lost": {2: "killed"}, "out_of_step": True, "why": "gone"}
    (lost,) = session.settled(**known).notices
    assert lost.title == "Process 2 is lost."
    over = Session(*(report(n, activity=IDLE) for n in range(4))).settled(**known)
    assert [one.title for one in over.notices] == [lost.title, "The collectives are out of step."]
    others = session.settled(**{**known, "lost": {}}).notices
    assert [one.title for one in others] == ["The collectives are out of step."]


def test_where_all_have_ended_it_is_said_how_to_go_on_and_nothing_of_collectives():
    lost = dict.fromkeys(range(4), "killed")
    known = {
        "lost": lost,
        "out_of_step": True,
        "why": "gone",
        "advice": "%dist_init starts afresh.",
    }
    _, notice = Session(count=4).settled(**known).notices
    assert (notice.title, notice.text) == ("All processes have ended.", known["advice"])
    others = Session(count=5).settled(**known).notices[1]
    assert (others.title, others.text) == (
        "The collectives are out of step.",
        f"Collectives may hang or mix up values: gone. {known['advice']}",
    )


def test_many_lost_processes_are_counted_not_listed():
    notice = Session(count=8).settled(lost=dict.fromkeys(range(6), "gone")).notices[0]
    assert notice.title == "Processes 0–5 are lost."
    assert notice.text.endswith("And 3 more.")


REPAIRED = Notice(
    level="warn",
    title="The session was repaired in 0.5 s.",
    text="Lost: w.",
    do="Create w again.",
    details=("w: no memory is left",),
    code="repaired",
    lost=("w",),
)


@pytest.mark.parametrize(
    ("known", "state", "title"),
    [
        ({"repairing": True}, "repairing", "Getting in step again."),
        ({"repairing": True, "lost": {1: "killed"}}, "repairing", "Bringing process 1 back."),
        (
            {"repairing": True, "lost": {0: "killed", 1: "killed"}},
            "repairing",
            "Bringing processes 0, 1 back.",
        ),
        ({"resizing": "3 in place of 4"}, "resizing", "Going on with 3 in place of 4."),
        ({"notice": REPAIRED}, "idle", REPAIRED.title),
    ],
)
def test_what_is_done_and_was_done_is_the_last_notice(known, state, title):
    snapshot = Session(*(report(n) for n in range(4))).settled(**known)
    assert (snapshot.state, snapshot.notices[-1].title) == (state, title)
    assert (REPAIRED in snapshot.notices) is ("notice" in known), "as a whole"


def test_the_largest_array_that_is_whole_everywhere_is_named():
    arrays = [
        named("small", ((), ()), shape=(8, 8)),
        named("embedding", ((), ()), shape=(8192, 512)),
        named("second", ((), ()), shape=(4096, 512)),
        named("sharded", shape=(81920, 512)),
    ]
    snapshot = Session(*(report(n, *arrays) for n in range(4))).settled()
    assert snapshot.notices == (
        Notice(level="warn", title="embedding", text="is replicated on all 8 devices (16 MB each)"),
    )


def test_notices_of_the_kernel_come_first():
    reported = Notice(level="bad", title="T", text="t")
    snapshot = Session(report(0)).settled(notices=(reported,), stuck=frozenset({0}))
    assert (snapshot.notices[0], len(snapshot.notices)) == (reported, 2)


def test_only_twenty_differences_are_listed():
    arrays = [named(f"w{n}") for n in range(50)]
    snapshot = Session(report(0, *arrays), report(1)).settled()
    assert len(snapshot.disagreements) == 20
    assert snapshot.notices[0].title.startswith("30 more")
