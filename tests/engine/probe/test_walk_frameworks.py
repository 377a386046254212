"""Real modules and states of Flax NNX, Equinox and Optax, each array by an expression that works."""

import equinox as eqx
import flax.core
import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx

from tests.engine.walking import paths


class Net(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(2, 3, rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(3, 3, use_bias=False, rngs=rngs)])
        self.named = nnx.Dict(head=nnx.Linear(3, 1, use_bias=False, rngs=rngs))
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.history = nnx.Variable({"seen": jnp.zeros(2)})


@pytest.fixture
def net():
    return Net(nnx.Rngs(0))


def test_nnx_modules_by_variables_lists_dicts_and_random_keys(net):
    assert paths({"net": net}) == {
        "net.linear.kernel",
        "net.linear.bias",
        "net.norm.mean",
        "net.norm.var",
        "net.norm.scale",
        "net.norm.bias",
        "net.layers[0].kernel",
        "net.named.head.kernel",
        "net.drop.rngs.key",
        "net.drop.rngs.count",
        "net.history.get_value()['seen']",
    }


def test_nnx_states_optimizers_and_pure_dicts(net):
    state = nnx.state(net, nnx.Param)
    optimizer = nnx.Optimizer(net, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    found = paths({"state": state, "optimizer": optimizer, "pure": nnx.to_pure_dict(state)})
    assert {
        "state['linear']['kernel']",
        "state['layers'][0]['kernel']",
        "optimizer.step",
        "optimizer.opt_state[0].trace['linear']['kernel']",
        "pure['linear']['kernel']",
    } <= found


def test_flax_without_its_ways_in_gives_nothing(net, monkeypatch):
    state, frozen = nnx.state(net), flax.core.freeze({"w": jnp.ones(2)})
    monkeypatch.delattr(nnx.Variable, "get_raw_value")
    monkeypatch.delattr(nnx.State, "raw_mapping")
    assert paths({"net": net, "state": state, "frozen": frozen}) == {"frozen['w']"}
    monkeypatch.delattr(flax.core.FrozenDict, "_dict")
    assert paths({"frozen": frozen}) == set()


def test_linen_frozen_dicts():
    params = flax.core.freeze({"params": {"dense": {"kernel": jnp.ones((2, 2))}}})
    assert paths({"variables": params}) == {"variables['params']['dense']['kernel']"}


def test_equinox_modules():
    model = eqx.nn.MLP(2, 1, width_size=4, depth=1, key=jax.random.key(0))
    assert paths({"model": model}) == {
        "model.layers[0].weight",
        "model.layers[0].bias",
        "model.layers[1].weight",
        "model.layers[1].bias",
    }


def test_optax_states():
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.constant_schedule(1e-3))
    )
    opt_state = optimizer.init({"w": jnp.ones(3)})
    assert paths({"opt_state": opt_state, "optimizer": optimizer}) == {
        "opt_state[1][0].count",
        "opt_state[1][0].mu['w']",
        "opt_state[1][0].nu['w']",
        "opt_state[1][1].count",
    }
