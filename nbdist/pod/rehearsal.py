"""A process whose devices are those of a pod that is not there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from nbdist.pod.backend import make_default
from nbdist.pod.devices import describe
from nbdist.pod.pod import Pod
from nbdist.pod.private import check_jax, made_current
from nbdist.pod.programs import Programs
from nbdist.pod.replaced import Replaced
from nbdist.pod.shown import PodProgram
from nbdist.pod.trace import RehearsalTrace
from nbdist.rehearsal.topology import read_topology


class Rehearsal:
    """A pod, a mesh over it, and what happens to each operation.

    Args:
      topology: As `nbdist.rehearsal.topology.read_topology` reads it.
      slices: So many of it.
      mesh: Its axes; None for no mesh.
      compiled: Called with each program.
      begins: Called with the name of each function before it is compiled.
    """

    def __init__(
        self,
        topology: str,
        *,
        slices: int = 1,
        mesh: str | None = None,
        compiled: Callable[[PodProgram], None],
        begins: Callable[[str], None] = lambda name: None,
    ) -> None:
        devices = describe(read_topology(topology, slices=slices))
        programs = Programs(devices, compiled, begins)
        self.pod = Pod(devices, programs)
        self.mesh = devices.mesh(mesh) if mesh is not None else None
        self.trace = RehearsalTrace(devices, programs)
        self._devices = devices
        self._never_left = contextlib.ExitStack()

    def begin(self) -> None:
        """From here on the pod is what this process has, and every operation of this thread is rehearsed.

        Raises:
          RehearsalError: JAX is of a version with which that cannot be.
        """
        check_jax()
        make_default(self._devices)
        Replaced(self.trace).install()
        self._never_left.enter_context(made_current(self.trace))
