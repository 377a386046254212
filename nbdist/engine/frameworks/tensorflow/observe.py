"""Observer of TensorFlow: devices, variables and the strategy of this process, as a report has them.

It runs no operation, starts no context and reads no device memory: it reads attributes of Python objects only.
"""

from __future__ import annotations

import sys
from typing import Any

from nbdist.contract.snapshot import Array, Device, Distribution, Mesh
from nbdist.engine.frameworks.tensorflow import batches
from nbdist.engine.frameworks.tensorflow.describe import Descriptions
from nbdist.engine.frameworks.tensorflow.strategies import AXIS, REMEMBERED, Replicas, replicas_of

__all__ = ["Observer", "remember"]


def remember(strategy: Any) -> None:
    """Note the strategy that is in force from now on; called on the main thread."""
    REMEMBERED.note(strategy)


class Observer:
    """An observer of TensorFlow's devices, variables and strategy, for repeated looks.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      process_id: The number of this process.
    """

    def __init__(self, main_thread: int, process_id: int) -> None:
        self._process_id = process_id
        self._replicas: Replicas | None = None
        self._descriptions = Descriptions(process_id)

    def begin(self) -> bool:
        """Start a look; return False if no strategy is in force, as with TensorFlow for `tf.data` alone."""
        strategy = REMEMBERED.get()
        if strategy is None:
            self._replicas = None
        elif self._replicas is None or self._replicas.strategy() is not strategy:
            self._replicas = replicas_of(strategy, self._process_id)
        if self._replicas is None:
            return False
        self._descriptions.begin(self._replicas)
        return True

    def array_classes(self) -> tuple[type, ...]:
        """Return `tf.Variable`, the base class of mirrored variables, too."""
        module = sys.modules.get("tensorflow.python.ops.variables")
        cls = getattr(module, "Variable", None)
        return (cls,) if isinstance(cls, type) else ()

    def mesh_classes(self) -> tuple[type, ...]:
        """Return no class: the strategy's mesh is the only one."""
        return ()

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """List a variable under a path; return False if it cannot be described."""
        return self._descriptions.add(path, array)

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """List again what the last look listed under a path with this shape; return False if it listed nothing."""
        return self._descriptions.keep(path, shape)

    def add_mesh(self, mesh: Any) -> None:
        """Do nothing: the strategy's mesh is the only one."""

    def describe(self, array: Any) -> Array | None:
        """Return one variable with an empty path; None if it cannot be described."""
        return self._descriptions.describe(array)

    def devices(self) -> tuple[Device, ...]:
        """Return the devices of this process that have replicas."""
        if self._replicas is None:
            return ()
        own = f"{self._process_id}:"
        platform = self._replicas.platform
        return tuple(
            Device(
                key=key,
                process_id=self._process_id,
                id=int(key.removeprefix(own)),
                platform=platform,
                kind=platform,
                coords=None,
                memory=None,
                live_bytes=None,
            )
            for key in self._replicas.mesh.devices
            if key.startswith(own)
        )

    def meshes(self) -> tuple[Mesh, ...]:
        """Return one mesh, of all replicas; none without a strategy."""
        return () if self._replicas is None else (self._replicas.mesh,)

    def arrays(self) -> tuple[Array, ...]:
        """Return the variables of this look."""
        return self._descriptions.arrays()

    def context_mesh(self) -> str | None:
        """Return None: a strategy is in force in any context."""
        return None

    def distributions(self) -> tuple[Distribution, ...]:
        """Return the strategy in force, with the batch it was last given."""
        if self._replicas is None:
            return ()
        given = batches.last(self._replicas.strategy())
        strategy = Distribution(
            noun="strategy",
            kind=self._replicas.kind,
            mesh=self._replicas.mesh.id,
            batch_axis=AXIS,
            auto_shard=None if given is None else given.auto_shard,
            replicas=self._replicas.count,
            global_batch=None if given is None else given.size,
            replica_batches=() if given is None else tuple(given.of_replicas),
        )
        return (strategy,)

    def note(self) -> None:
        """Hook in, so that strategies and batches are noted when they are made."""
        self.hook()

    def hook(self) -> None:
        """Note from now on strategies that users make themselves, and batches given to strategies."""
        REMEMBERED.hook()
        batches.install()

    def unhook(self) -> None:
        """Remove the hooks."""
        REMEMBERED.unhook()
        batches.uninstall()
