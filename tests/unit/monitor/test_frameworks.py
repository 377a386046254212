"""Distributions, models, progress and roles of many processes as one snapshot."""

from __future__ import annotations

import pytest
from msgspec import structs

from nbdist.contract.snapshot import (
    DeviceBytes,
    Distribution,
    LayoutRule,
    Metric,
    Model,
    Progress,
    Variable,
    Version,
)
from nbdist.errors import Notice
from nbdist.monitor import Merger
from nbdist.monitor.states import ExpectedProcess, Known
from tests.builders.reports import KEYS, NOW, RUNNING, Session, named, report

MB = 1 << 20
PARALLEL = Distribution(
    noun="distribution", kind="DataParallel", mesh="f", batch_axis="data", auto_shard=False
)
KERNEL = Variable(
    path="dense/kernel",
    array="model.layers[1].kernel",
    group="trainable",
    shape=(64, 64),
    dtype="float32",
    nbytes=16384,
    rule="dense/kernel",
    axes=(None, "model"),
    spec=((), ("model",)),
    device_bytes=8192,
    missed=False,
)
TABLE = structs.replace(
    KERNEL,
    path="embedding/embeddings",
    array="w",
    nbytes=16 * MB,
    rule=None,
    axes=None,
    spec=((), ()),
    device_bytes=16 * MB,
    missed=True,
)


def model(process, *variables, path="model", unmatched=()):
    """A model as process `process` reports it: it sees its own two devices."""
    total = sum(one.device_bytes for one in variables)
    return Model(
        path=path,
        kind="Sequential",
        variables=variables,
        variables_omitted=0,
        unmatched=unmatched,
        totals=(DeviceBytes(devices=KEYS[2 * process : 2 * process + 2], nbytes=total),),
    )


def settled(**sections):
    """The snapshot of four processes; each section is a function of the process id."""
    reports = [
        report(n, **{name: section(n) for name, section in sections.items()}) for n in range(4)
    ]
    return Session(*reports).settled()


def test_k4_equal_distributions_of_all_processes_become_one():
    snapshot = settled(distributions=lambda n: (PARALLEL,))
    assert snapshot.distributions == (PARALLEL,)
    assert snapshot.disagreements == ()


def test_k4_processes_that_disagree_on_the_distribution_are_named():
    held = [
        (PARALLEL,),
        (PARALLEL,),
        (structs.replace(PARALLEL, kind="ModelParallel", mesh="m"),),
        (),
    ]
    snapshot = settled(distributions=lambda n: held[n])
    assert [one.processes for one in snapshot.distributions] == [(0, 1), (2,)]
    [disagreement] = snapshot.disagreements
    assert disagreement.about == "distribution"
    assert disagreement.versions == (
        Version(processes=(0, 1), value="DataParallel on mesh data=8"),
        Version(processes=(2,), value="ModelParallel on mesh data=4 × model=2"),
        Version(processes=(3,), value="none set"),
    )


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"auto_shard": True}, ["auto-sharding off", "auto-sharding on"]),
        ({"batch_axis": "model"}, ["batches split over data", "batches split over model"]),
        ({"global_batch": 12}, ["", "global batch 12"]),
        (
            {"rules": (LayoutRule(pattern=".*kernel", axes=(None, "model")),)},
            ["", ".*kernel P(None, 'model')"],
        ),
    ],
)
def test_distributions_that_would_read_alike_are_made_different(change, texts):
    held = [(PARALLEL,)] * 3 + [(structs.replace(PARALLEL, **change),)]
    [disagreement] = settled(distributions=lambda n: held[n]).disagreements
    base = "DataParallel on mesh data=8"
    assert [version.value for version in disagreement.versions] == [
        f"{base}, {text}" if text else base for text in texts
    ]


def test_a_change_of_distribution_is_a_disagreement_only_when_it_lasts():
    session = Session(*(report(n, distributions=(PARALLEL,)) for n in range(4)))
    session.take(report(0, sequence=2, distributions=()))
    assert session.merger.snapshot(Known(), time_s=NOW).disagreements == ()
    session.take(*(report(n, sequence=3, distributions=()) for n in range(4)))
    assert session.settled().disagreements == ()
    assert session.settled().distributions == ()


def test_k5_equal_models_become_one_with_the_devices_of_all_processes():
    snapshot = settled(models=lambda n: (model(n, KERNEL),))
    [merged] = snapshot.models
    assert merged.variables == (KERNEL,)
    assert merged.processes == ()
    assert merged.totals == (DeviceBytes(devices=KEYS, nbytes=8192),)


def test_totals_put_the_fullest_devices_first():
    uneven = [KERNEL, KERNEL, structs.replace(KERNEL, device_bytes=16384), KERNEL]
    by_process = [model(n, uneven[n]) for n in range(4)]
    same = [structs.replace(one, variables=(KERNEL,)) for one in by_process]
    [merged] = settled(models=lambda n: (same[n],)).models
    assert merged.totals == (
        DeviceBytes(devices=KEYS[4:6], nbytes=16384),
        DeviceBytes(devices=KEYS[:4] + KEYS[6:], nbytes=8192),
    )


@pytest.mark.parametrize(
    ("other", "texts"),
    [
        (
            (structs.replace(KERNEL, spec=((), ())),),
            [
                "dense/kernel f32[64, 64] P(None, 'model'), asked for P(None, 'model')",
                "dense/kernel f32[64, 64] P(None, None), asked for P(None, 'model')",
            ],
        ),
        ((KERNEL, TABLE), ["1 variable", "2 variables"]),
    ],
)
def test_models_that_differ_are_named_with_their_number_or_first_variable_that_differs(
    other, texts
):
    snapshot = settled(models=lambda n: (model(n, *(other if n == 2 else [KERNEL])),))
    assert [one.processes for one in snapshot.models] == [(0, 1, 3), (2,)]
    [disagreement] = snapshot.disagreements
    assert disagreement.about == "model model"
    assert [version.value for version in disagreement.versions] == texts


def test_models_are_merged_again_only_after_a_change():
    session = Session(*(report(n, models=(model(n, KERNEL),)) for n in range(4)))
    first = session.settled()
    again = (report(n, sequence=2, activity=RUNNING, models=(model(n, KERNEL),)) for n in range(4))
    session.take(*again)
    assert session.settled().models is first.models


def test_a_large_variable_that_no_rule_matched_is_said_once():
    table = named("w", spec=((), ()), shape=(2048, 2048))
    reports = (report(n, table, models=(model(n, KERNEL, TABLE),)) for n in range(4))
    snapshot = Session(*reports).settled()
    assert snapshot.notices == (
        Notice(
            level="warn",
            title="embedding/embeddings",
            text="is replicated on all 8 devices (16 MB each): no rule of the layout map matched it",
        ),
    )


def test_arrays_beside_models_are_still_warned_about():
    reports = (
        report(n, named("big", spec=((), ()), shape=(2048, 2048)), models=(model(n, KERNEL),))
        for n in range(4)
    )
    [notice] = Session(*reports).settled().notices
    assert notice.title == "big"


RULED = structs.replace(
    PARALLEL,
    kind="ModelParallel",
    rules=tuple(
        LayoutRule(pattern=pattern, axes=(None, "model"))
        for pattern in ("dense/kernel", ".*attention.*", ".*conv.*")
    ),
)


def test_k5_rules_that_match_no_variable_of_any_model_are_named():
    def models(n):
        one = model(n, KERNEL, unmatched=(".*attention.*", ".*conv.*"))
        return (one, structs.replace(one, path="other", unmatched=(".*attention.*",)))

    [notice] = settled(models=models, distributions=lambda n: (RULED,)).notices
    assert f"{notice.title} {notice.text}" == (
        "Rule '.*attention.*' of the layout map matches no variable of any model"
    )


def test_rules_of_one_process_are_matched_with_its_own_models():
    def models(n):
        unmatched = (".*attention.*", ".*conv.*") if n == 3 else ()
        return (model(n, KERNEL, unmatched=unmatched),)

    def distributions(n):
        return (RULED if n == 3 else PARALLEL,)

    [notice] = settled(models=models, distributions=distributions).notices
    assert "Rules '.*attention.*', '.*conv.*'" in notice.title and notice.text.endswith(" of model")


def test_rules_are_no_worry_before_there_is_a_model():
    assert settled(distributions=lambda n: (RULED,)).notices == ()


def test_t2_an_uneven_division_of_the_batch_is_a_notice():
    even = structs.replace(PARALLEL, replicas=4, global_batch=12, replica_batches=(3, 3, 3, 3))
    assert settled(distributions=lambda n: (even,)).notices == ()
    uneven = structs.replace(even, global_batch=10, replica_batches=(3, 3, 2, 2))
    [notice] = settled(distributions=lambda n: (uneven,)).notices
    assert (notice.title, notice.text) == (
        "The batch is divided unevenly:",
        "global batch 10 on 4 replicas: 3, 3, 2, 2; the means of all replicas count the same, "
        "so examples in smaller parts weigh more",
    )


def test_a_distribution_that_does_nothing_is_a_notice():
    [notice] = settled(
        distributions=lambda n: (structs.replace(PARALLEL, problem="It is."),)
    ).notices
    assert (notice.title, notice.text) == ("DataParallel:", "It is.")


def with_evaluator(*reports):
    planned = [
        ExpectedProcess(process_id=0, host="h1", role="worker", task="worker 0, chief"),
        ExpectedProcess(process_id=1, host="h1", role="worker"),
        ExpectedProcess(process_id=2, host="h2", role="evaluator", task="evaluator 0"),
    ]
    session = Session()
    session.merger = Merger("s", planned)
    session.take(*reports)
    return session.settled()


def test_t4_an_evaluator_is_not_compared_with_workers():
    snapshot = with_evaluator(
        *(
            report(n, named(), distributions=(PARALLEL,), models=(model(n, KERNEL),))
            for n in (0, 1)
        ),
        report(2, named("x", spec=((), ()), shape=(2, 2)), models=(model(2, TABLE),)),
    )
    assert snapshot.disagreements == ()
    assert {array.path: array.processes for array in snapshot.arrays} == {"w": (0, 1), "x": (2,)}
    assert [process.task for process in snapshot.processes] == [
        "worker 0, chief",
        None,
        "evaluator 0",
    ]


def test_t4_workers_of_a_session_with_an_evaluator_are_compared():
    snapshot = with_evaluator(report(0, named()), report(1), report(2))
    assert [one.about for one in snapshot.disagreements] == ["array w"]


def test_t7_progress_is_kept_after_the_cell_has_ended():
    reported = Progress(
        what="evaluate, checkpoint ckpt-3", metrics=(Metric(name="loss", value=0.3),)
    )
    session = Session(report(0, activity=RUNNING, progress=(reported,)))
    session.take(report(0, sequence=2))
    process = session.settled().processes[0]
    assert (process.state, process.progress) == ("idle", reported)
    session.take(report(0, sequence=3, progress=()))
    assert session.settled().processes[0].progress is None


def test_a_forgotten_process_has_neither_distribution_nor_models():
    session = Session(report(0, distributions=(PARALLEL,), models=(model(0, KERNEL),)))
    session.merger.forget(0)
    snapshot = session.settled()
    assert (snapshot.distributions, snapshot.models) == ((), ())
