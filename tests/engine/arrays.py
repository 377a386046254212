"""Arrays on the eight devices of these tests."""

import jax
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec


def spread(values, mesh, *spec):
    return jax.device_put(jnp.asarray(values), NamedSharding(mesh, PartitionSpec(*spec)))
