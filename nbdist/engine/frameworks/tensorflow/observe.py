"""Devices, variables and the strategy of this process, as a report carries them.

Runs no operation, starts no context, reads no device memory: only what Python objects say of themselves.
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
    """Notes the strategy that is in force from now on; on the main thread."""
    REMEMBERED.note(strategy)


class Observer:
    """See `nbdist.engine.probe.observer.Observer`.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      process_id: Of this process.
    """

    def __init__(self, main_thread: int, process_id: int) -> None:
        self._process_id = process_id
        self._replicas: Replicas | None = None
        self._descriptions = Descriptions(process_id)

    def begin(self) -> bool:
        """Starts a look; False where no strategy is in force, as with TensorFlow for `tf.data` alone."""
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
        """`tf.Variable`, from which mirrored ones derive."""
        module = sys.modules.get("tensorflow.python.ops.variables")
        cls = getattr(module, "Variable", None)
        return (cls,) if isinstance(cls, type) else ()

    def mesh_classes(self) -> tuple[type, ...]:
        """None: the strategy's is the only mesh."""
        return ()

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """Lists a variable under a path."""
        return self._descriptions.add(path, array)

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """Lists again what the look before listed."""
        return self._descriptions.keep(path, shape)

    def add_mesh(self, mesh: Any) -> None:
        """There is no other mesh than the strategy's."""

    def describe(self, array: Any) -> Array | None:
        """One variable with an empty path; None where it cannot be described."""
        return self._descriptions.describe(array)

    def devices(self) -> tuple[Device, ...]:
        """The devices of this process that have replicas."""
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
        """All replicas."""
        return () if self._replicas is None else (self._replicas.mesh,)

    def arrays(self) -> tuple[Array, ...]:
        """The variables of this look."""
        return self._descriptions.arrays()

    def context_mesh(self) -> str | None:
        """None: a strategy is in force whatever the context."""
        return None

    def distributions(self) -> tuple[Distribution, ...]:
        """The strategy in force, and the batch it was last given."""
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
        """Strategies and batches are noted when they are made; here only that they shall be."""
        self.hook()

    def hook(self) -> None:
        """Follows strategies that users make themselves."""
        REMEMBERED.hook()
        batches.install()

    def unhook(self) -> None:
        """Leaves TensorFlow as it was."""
        REMEMBERED.unhook()
        batches.uninstall()
