"""Keras 3 under `MultiWorkerMirroredStrategy`, as shipped and adapted; plain processes, no nbdist between them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import keras
import keras.src.backend.tensorflow.trainer as module
import numpy as np
import pytest

from nbdist.engine.frameworks.tensorflow import start as adaptation
from tests.tensorflow.workers import outcome

CLOSE = 1e-4


@pytest.fixture(scope="module")
def alone() -> Any:
    (found,) = outcome("keras_3", 1, adapt=True)
    return found


@pytest.mark.parametrize("number", [2, 4])
def test_adapted_keras_trains_on_several_workers_as_on_one(alone: Any, number: int) -> None:
    for found in outcome("keras_3", number, adapt=True):
        assert found["replicas"] == number
        assert found["fit"].keys() == alone["fit"].keys()
        for name, values in alone["fit"].items():
            assert found["fit"][name] == pytest.approx(values, abs=CLOSE), name
        assert found["evaluate"] == pytest.approx(alone["evaluate"], abs=CLOSE)
        assert np.allclose(found["predict"], alone["predict"], atol=CLOSE)


def test_a_batch_that_does_not_divide_is_trained_as_on_mirrored_devices_and_evaluated_exactly() -> (
    None
):
    # 73 rows: the last batch has 9, of which one worker gets 8 and the other 1.
    (mirrored,) = outcome("keras_3", 1, adapt=True, replicas=2, rows=73)
    for found in outcome("keras_3", 2, adapt=True, rows=73):
        for name, values in mirrored["fit"].items():
            assert found["fit"][name] == pytest.approx(values, abs=CLOSE), name
        assert found["evaluate"] == pytest.approx(found["evaluated_apart"], abs=CLOSE)
        assert len(found["predict"]) == 73
        assert np.allclose(found["predict"], found["called"], atol=CLOSE)


@pytest.mark.parametrize("replicas", [2, 4])
def test_mirrored_devices_of_one_process_train_as_one_device(alone: Any, replicas: int) -> None:
    (found,) = outcome("keras_3", 1, adapt=False, replicas=replicas)
    assert found["replicas"] == replicas
    assert found["jit"] is False
    for name, values in alone["fit"].items():
        assert found["fit"][name] == pytest.approx(values, abs=CLOSE), name
    assert found["evaluate"] == pytest.approx(alone["evaluate"], abs=CLOSE)
    assert np.allclose(found["predict"], alone["predict"], atol=CLOSE)


def test_keras_cannot_fit_uneven_batches_on_mirrored_devices_as_shipped_and_adapted_can() -> None:
    (shipped,) = outcome("uneven_batches", 1, adapt=False)
    assert shipped.startswith("InvalidArgumentError")
    (adapted,) = outcome("uneven_batches", 1, adapt=True)
    assert adapted == "nothing"


def test_keras_cannot_fit_on_several_workers_as_shipped_nor_after_undo() -> None:
    assert all("PerReplica" in raised for raised in outcome("keras_3_undone", 2))


def test_legacy_keras_trains_on_several_workers_as_shipped() -> None:
    (alone,) = outcome("legacy_keras", 1)
    for found in outcome("legacy_keras", 2):
        for name, values in alone["fit"].items():
            assert found["fit"][name] == pytest.approx(values, abs=CLOSE), name
        assert found["evaluate"] == pytest.approx(alone["evaluate"], abs=CLOSE)
        assert np.allclose(found["predict"], alone["predict"], atol=CLOSE)


def test_a_custom_loop_trains_on_several_workers_as_on_one() -> None:
    (alone,) = outcome("custom_loop", 1)
    assert alone[-1] < alone[0]
    for found in outcome("custom_loop", 2):
        assert found == pytest.approx(alone, abs=CLOSE)


def test_adapting_says_what_was_adapted_once_and_runs_no_operation() -> None:
    (said,) = outcome("announcements", 1)
    first, again, after_undo = said["announced"]
    assert first.startswith(f"Keras {keras.__version__} as shipped cannot fit under MultiWorker")
    assert "_maybe_symbolic_build and reduce_per_replica" in first
    assert again is None
    assert after_undo == first
    assert not said["started"]


def test_only_what_upstream_has_not_repaired_is_adapted(trainer: Any) -> None:
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        return strategy.reduce("MEAN", values, axis=None)

    trainer.setattr(module, "reduce_per_replica", reduce_per_replica)
    announced = adaptation.adapt()
    assert announced and "adapts _maybe_symbolic_build of" in announced
    assert module.reduce_per_replica is reduce_per_replica

    adaptation.undo()

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        for _, _, batches in iterator:
            data_batch = [
                self.distribute_strategy.experimental_local_results(value)[0]
                for value in next(batches)
            ]
            break
        self._symbolic_build(data_batch=data_batch)

    trainer.setattr(module.TensorFlowTrainer, "_maybe_symbolic_build", _maybe_symbolic_build)
    assert adaptation.adapt() is None


def test_a_trainer_that_is_not_known_is_left_alone(trainer: Any) -> None:
    trainer.setattr(module, "reduce_per_replica", lambda values, strategy, how, where: values)
    trainer.delattr(module.TensorFlowTrainer, "_maybe_symbolic_build")
    assert adaptation.adapt() is None


def test_nothing_is_adapted_where_keras_does_not_run_on_tensorflow(trainer: Any) -> None:
    trainer.delitem(sys.modules, module.__name__)
    assert adaptation.adapt() is None


@pytest.fixture
def trainer() -> Iterator[pytest.MonkeyPatch]:
    """Keras' trainer, as it was before and will be afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    adaptation.undo()
