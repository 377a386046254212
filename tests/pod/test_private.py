"""What of JAX is private: with it, and where it is gone."""

from __future__ import annotations

import re
from unittest import mock

import jax
import numpy as np
import pytest
from jax._src import core, xla_bridge

from nbdist.errors import RehearsalError
from nbdist.rehearsal import devices


@pytest.mark.parametrize(
    "gone",
    [
        lambda: mock.patch.object(
            core, "set_current_trace", mock.Mock(side_effect=TypeError("other"))
        ),
        lambda: mock.patch.object(devices, "jit_call", lambda primitive, params: None),
        lambda: mock.patch.object(devices, "jit_call", mock.Mock(side_effect=KeyError("jaxpr"))),
        lambda: mock.patch.object(devices, "compiled_for", mock.Mock(side_effect=AttributeError())),
        lambda: mock.patch.object(
            xla_bridge, "backends_are_initialized", mock.Mock(side_effect=AttributeError("gone"))
        ),
    ],
)
def test_a_jax_without_a_piece_is_named_with_those_that_work(gone):
    devices.check_jax()
    said = ".*".join(map(re.escape, (jax.__version__, *devices.TRIED)))
    with gone(), pytest.raises(RehearsalError, match=said):
        devices.check_jax()


def test_a_trace_is_current_only_within():
    trace = devices._Probe()
    assert not devices.is_current(trace)
    with devices.made_current(trace):
        assert devices.is_current(trace)
    assert not devices.is_current(trace)
    assert devices.has_chosen_devices()


def test_a_call_carries_donations_shardings_and_who_made_the_function():
    replicated = jax.sharding.SingleDeviceSharding(jax.devices()[1])
    probe = devices._Probe()
    with devices.made_current(probe):

        def step(a, b):
            return a, b

        jax.jit(step, donate_argnums=1, out_shardings=(None, replicated))(
            np.float32(0), np.float32(1)
        )
        jax.numpy.sin(np.float32(0))
    call = probe.calls[0]
    assert (call.name, call.donated, call.of_jax) == ("step", (False, True), False)
    assert call.in_shardings == (None, None)
    assert call.out_shardings == (None, replicated)
    assert all(one is None or one.of_jax for one in probe.calls[1:])
