"""The status of a session in characters."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from nbdist.contract.snapshot import Disagreement, Metric, Progress, Version
from nbdist.errors import Notice
from nbdist.view.status import status_text
from tests.builders.golden import snapshot


def test_status_has_a_row_for_each_process_and_what_to_read_now():
    assert status_text(snapshot("failed"), width=80).splitlines() == [
        "recovering   4 processes on 2 hosts   8 cpu devices",
        "process  host  state    cell  line  seconds  memory",
        "0        h1    waiting  12    4     3.2 s    400 MB  loss = step(params, x)",
        "1        h1    failed   12    2              401 MB  ValueError: empty batch",
        "2        h2    waiting  12    4     3.2 s    402 MB  loss = step(params, x)",
        "3        h2    lost                          403 MB  ended by signal 9 (SIGKILL)",
        "Process 1 raised, processes 0, 2 still in the cell. On process 1 (h1): ValueError: empty batch in "
        "line 2, x = next(batches). Processes 0, 2 are in line 4, loss = step(params, x) for 3.2 s.",
        "Process 3 is lost. Process 3 on h2: ended by signal 9 (SIGKILL).",
    ]


def test_a_title_and_a_text_are_sentences_in_one_line():
    notices = (
        Notice(level="bad", title="Process 1 raised E at line 7: no data", text="All is kept."),
        Notice(level="warn", title="w", text="is replicated on all 8 devices."),
    )
    shown = status_text(structs.replace(snapshot("tour"), notices=notices))
    assert "\nProcess 1 raised E at line 7: no data. All is kept.\nw is replicated on" in shown


def test_before_the_first_reports_and_after_the_end_no_process_is_called_idle():
    assert status_text(snapshot("empty")).startswith("starting   4 processes ")
    stopped = status_text(structs.replace(snapshot("tour"), state="stopped"))
    assert stopped.startswith("stopped   ") and stopped.split("\n")[1].startswith("embedding ")


def test_of_a_pod_it_shows_trouble_first_and_counts_the_rest():
    session = snapshot("tour")
    many = [
        structs.replace(session.processes[0], process_id=n, waiting=False, state="idle")
        for n in range(100)
    ]
    many[99] = structs.replace(many[99], state="lost")
    lines = status_text(structs.replace(session, processes=tuple(many))).splitlines()
    assert lines[2].startswith("99 ")
    assert "… and 60 more processes: 60 idle" in lines


def test_roles_are_shown_where_they_differ():
    session = snapshot("tour")
    assert "worker" not in status_text(session)
    evaluator = structs.replace(session.processes[3], role="evaluator")
    text = status_text(structs.replace(session, processes=(*session.processes[:3], evaluator)))
    assert "evaluator" in text and "worker" in text


def test_what_differs_is_one_line():
    versions = (Version(processes=(0, 1, 2), value="a"), Version(processes=(3,), value="b"))
    differs = (Disagreement(about="x", versions=versions),)
    text = status_text(structs.replace(snapshot("empty"), disagreements=differs))
    assert text.endswith("x differs: processes 0–2 a; process 3 b")


def test_k4_the_status_shows_each_distribution_with_its_processes():
    lines = status_text(snapshot("keras_disagree"), width=120).splitlines()
    said = [line.split("  ") for line in lines if line.startswith("distribution D")]
    assert [(one[0], one[-1]) for one in said] == [
        ("distribution DataParallel", "(processes 0, 1, 3)")
    ]
    assert any(line.startswith("distribution differs: processes 0, 1, 3") for line in lines)


def test_t2_t4_t7_the_status_shows_tasks_progress_and_replicas():
    text = status_text(snapshot("tensorflow"), width=200)
    for line in (
        r"0 +h1 +worker 0, chief +running",
        r"2 +h2 +evaluator 0 +idle",
        r"fit, epoch 4 of 5  loss 0\.287  accuracy 0\.923  \(processes 0, 1\)$",
        r"evaluate, checkpoint ckpt-3  loss 0\.418  accuracy 0\.88  \(process 2\)$",
        r".*  .*4 replicas, global batch 10, on the replicas 3, 3, 2, 2",
    ):
        assert re.search(f"^{line}", text, re.M)


@pytest.mark.parametrize(
    ("value", "text"), [(0.31244, "0.312"), (1534.4, "1534"), (1.2e-5, "1.2e-05"), (7.0, "7")]
)
def test_metrics_have_three_significant_digits(value, text):
    session = snapshot("empty")
    reported = Progress(what="fit", metrics=(Metric(name="loss", value=value),))
    session = structs.replace(
        session, processes=(structs.replace(session.processes[0], progress=reported),)
    )
    assert f"fit  loss {text}  (process 0)" in status_text(session)
