"""A pod in the process that asks for it, whatever that is."""

from __future__ import annotations

import os

import jax

from nbdist.errors import RehearsalError
from nbdist.pod.backend import has_described_backend
from nbdist.pod.devices import describe
from nbdist.pod.pod import Pod
from nbdist.pod.private import has_chosen_devices
from nbdist.pod.programs import Programs
from nbdist.rehearsal import libtpu
from nbdist.rehearsal.topology import read_topology
from nbdist.spelling import command


def pod_here(topology: str, *, slices: int = 1) -> Pod:
    """A pod for this process to compile for; see `nbdist.rehearse`.

    Raises:
      OptionError: There is no such topology.
      RehearsalError: libtpu is not there, or this process may have devices that it would take.
    """
    read = read_topology(topology, slices=slices)
    found = libtpu.find()
    if not has_described_backend():
        _check_harmless()
    before = {name: os.environ.get(name) for name in libtpu.variables(found)}
    os.environ.update(libtpu.variables(found))
    try:
        devices = describe(read)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return Pod(devices, Programs(devices, lambda program: None))


def _check_harmless() -> None:
    """libtpu starts no TPU, but the first compilation has JAX start its backends, and so take a GPU's memory."""
    platforms = jax.config.jax_platforms
    if platforms != "cpu" and not has_chosen_devices():
        raise RehearsalError(
            "JAX has not chosen its devices in this process yet, and would when a program is compiled: it would "
            "take the memory of GPUs, or the TPUs, that a session may want. Call jax.devices() first if this "
            f"process may have them, set JAX_PLATFORMS=cpu before JAX is imported, or use {command('rehearse')}, "
            "which has a process of its own."
        )
    if "tpu" in (platforms or "") or (has_chosen_devices() and jax.default_backend() == "tpu"):
        raise RehearsalError(
            "This process has TPUs, and rehearsing here would change what it does with them. Use "
            f"{command('rehearse')}, which has a process of its own."
        )
