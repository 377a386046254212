"""The CPU devices of these tests as the pod of a rehearsal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax

from nbdist.contract.program import Program
from nbdist.rehearsal.devices import Devices, made_current
from nbdist.rehearsal.pod import RehearsalTrace
from nbdist.rehearsal.programs import Programs
from nbdist.rehearsal.topology import Topology


class Rehearsed:
    """A rehearsal, and what it has compiled."""

    def __init__(self, devices: int = 8) -> None:
        self.shown: list[Program] = []
        topology = Topology(chip=None, shape=(devices,))
        self.devices = Devices(topology, jax.devices()[:devices])
        self.programs = Programs(self.devices, self.shown.append)
        self.trace = RehearsalTrace(self.devices, self.programs)


@contextlib.contextmanager
def rehearsed(devices: int = 8) -> Iterator[Rehearsed]:
    """Every operation in it is rehearsed."""
    rehearsal = Rehearsed(devices)
    with made_current(rehearsal.trace):
        yield rehearsal
