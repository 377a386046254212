"""What happens where TensorFlow's private API is gone; nothing here starts TensorFlow in this process.

Other tests may have, so its context is put aside where that matters.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute
from tensorflow.python.eager import context as eager

from nbdist.engine.frameworks.tensorflow import interrupt, strategies
from nbdist.engine.frameworks.tensorflow.observe import replica_values


def test_tensorflow_counts_as_not_started_where_its_context_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(eager, "_context", None)
    assert not interrupt.started()
    monkeypatch.setattr(eager, "_context", SimpleNamespace(_context_handle=object()))
    assert interrupt.started()
    monkeypatch.delattr(eager, "_context")
    assert not interrupt.started()


def test_collectives_are_aborted_only_where_tensorflow_has_started_and_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[Any] = []
    running = SimpleNamespace(
        _context_handle=object(), abort_collective_ops=lambda *args: said.append(args)
    )
    monkeypatch.setattr(eager, "_context", None)
    assert not interrupt.abort_collectives("before the start")
    monkeypatch.setattr(eager, "_context", running)
    assert interrupt.abort_collectives("now")
    assert said == [(tf.errors.UNAVAILABLE, "now")]
    del running.abort_collective_ops
    assert not interrupt.abort_collectives("gone")


def test_a_context_that_cannot_be_reset_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(eager, "_reset_context")
    with pytest.raises(RuntimeError, match="cannot start again in the same process"):
        interrupt.reset_context()


def test_a_strategy_that_does_not_tell_its_devices_is_not_shown() -> None:
    assert strategies.replicas_of(SimpleNamespace(extended=SimpleNamespace()), 0) is None
    assert strategies.replicas_of(object(), 0) is None


def test_a_variable_without_replicas_is_a_plain_one() -> None:
    assert replica_values(object()) is None


def test_without_tensorflows_own_way_to_find_it_no_batch_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(distribute, "compute_batch_size")
    assert strategies.batch_size(object()) is None


def test_hooks_are_taken_away_whole() -> None:
    base = tf.distribute.Strategy
    before = dict(vars(base))
    strategies.NOTED.hook()
    strategies.REMEMBERED.hook()
    assert dict(vars(base)) != before
    strategies.NOTED.unhook()
    strategies.REMEMBERED.unhook()
    assert dict(vars(base)) == before


def test_nothing_is_hooked_while_tensorflow_is_not_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert strategies.hook_data_sets(lambda strategy, dataset: None) is None
    assert strategies.hook_strategies(lambda strategy: None) is None
