"""Comparer of Keras: the distribution that is set must be equal on all processes before a cell."""

from __future__ import annotations

import threading

from nbdist.contract.agreement import DistributionFacts
from nbdist.engine.agreement import comparer
from nbdist.engine.frameworks.jax.meshes import Meshes
from nbdist.engine.frameworks.keras.distribution import SetDistribution, describe_distribution


class Comparer(comparer.Comparer):
    """The comparer of the distribution that Keras has set."""

    def __init__(self) -> None:
        self._meshes = Meshes()

    def distribution(self) -> DistributionFacts | None:
        """Return the calling thread's distribution; None where none is set."""
        noted = SetDistribution(threading.get_ident())
        noted.read()
        distribution = noted.get()
        if distribution is None:
            return None
        described, mesh = describe_distribution(distribution, self._meshes)
        return DistributionFacts(
            kind=described.kind,
            batch_axis=described.batch_axis,
            auto_shard=described.auto_shard,
            rules=described.rules,
            mesh=mesh,
        )
