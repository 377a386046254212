"""What the probe sees of strategies, variables and batches; plain processes, no nbdist between them."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.contract.snapshot import Array, Device, Distribution, Mesh
from nbdist.contract.wire import decode
from tests.tensorflow.workers import outcome


@pytest.fixture(scope="module", params=["mirrored", "workers"])
def seen(request: pytest.FixtureRequest) -> Any:
    """The processes' answers, and the keys of all replicas."""
    if request.param == "mirrored":
        return outcome("seen_by_a_probe", 1, replicas=4), ["0:0", "0:1", "0:2", "0:3"]
    return outcome("seen_by_a_probe", 2), ["0:0", "1:0"]


def test_nothing_is_seen_nor_started_before_there_is_a_strategy(seen: Any) -> None:
    for process in seen[0]:
        assert process["looks"][0] is None
        assert not process["started_by_looking"]


def test_mirrored_variables_lie_whole_on_each_replica_of_one_mesh(seen: Any) -> None:
    processes, keys = seen
    for index, process in enumerate(processes):
        look = process["looks"][1]
        (mesh,) = look["meshes"]
        assert mesh["devices"] == keys
        assert mesh == processes[0]["looks"][1]["meshes"][0]
        assert mesh["axes"] == [{"name": "replica", "size": len(keys), "type": "auto"}]
        kernel = look["arrays"]["kernel"]
        assert (kernel["shape"], kernel["dtype"], kernel["nbytes"]) == ([4, 8], "float32", 128)
        assert kernel["sharding"]["mesh"] == mesh["id"]
        assert kernel["sharding"]["spec"] == [[], []]
        assert kernel["sharding"]["unreduced"] == []
        assert look["arrays"]["on_read"]["sharding"]["unreduced"] == ["replica"]
        plain = look["arrays"]["plain"]["sharding"]
        assert plain == {"kind": "single", "device": f"{index}:0", "memory_kind": None}
        assert look["listed"] == {"kernel": True, "on_read": True, "plain": True, "words": False}
        assert look["again"]
        own = [key for key in keys if key.startswith(f"{index}:")]
        assert [device["key"] for device in look["devices"]] == own


def test_what_is_seen_has_the_form_of_the_contract(seen: Any) -> None:
    for process in seen[0]:
        for look in process["looks"][1:]:
            for section, kind in (
                ("devices", Device),
                ("meshes", Mesh),
                ("distributions", Distribution),
            ):
                for one in look[section]:
                    decode(kind, one)
            for one in look["arrays"].values():
                decode(Array, one)


def test_the_batch_of_fit_is_seen_with_its_uneven_split_not_that_of_its_validation(
    seen: Any,
) -> None:
    processes, keys = seen
    for process in processes:
        (before,) = process["looks"][1]["distributions"]
        (after,) = process["looks"][2]["distributions"]
        kind = "MirroredStrategy" if len(keys) == 4 else "MultiWorkerMirroredStrategy"
        assert before["kind"] == after["kind"] == kind
        assert before["replicas"] == len(keys)
        assert before["global_batch"] is None
        assert after["global_batch"] == 21
        assert after["replica_batches"] == ([6, 5, 5, 5] if len(keys) == 4 else [11, 10])
        assert after["auto_shard"] is (None if len(keys) == 4 else True)


def test_variables_and_tensors_are_offered_as_they_are_on_this_process(seen: Any) -> None:
    for process in seen[0]:
        offered = process["offered"]
        assert offered["kernel"] == offered["variable"]
        assert (offered["kernel"]["shape"], offered["kernel"]["whole"]) == ([4, 8], True)
        assert process["bytes"]
        assert offered["tensor"]["shape"] == [2, 5]
        assert offered["x"] is None
        symbolic, words = process["refused"]
        assert "'t' is symbolic" in symbolic
        assert "'words' holds strings" in words
