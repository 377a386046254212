"""The start of JAX on an engine: it joins the others, and counts what it sends to them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection

from nbdist.contract.calls.engine import Initialized
from nbdist.contract.stages import JaxStage
from nbdist.engine.frameworks.jax import waiting
from nbdist.engine.frameworks.jax.repair.service import leaves_without_asking
from nbdist.engine.frameworks.jax.step.sockets import listening_ports
from nbdist.engine.frameworks.jax.step.step import Step
from nbdist.engine.frameworks.once import explain_late_devices, explain_second_call
from nbdist.engine.frameworks.process import Process
from nbdist.errors import SessionError
from nbdist.spelling import command


def initialize(process: Process, stage: JaxStage) -> Initialized:
    """Joins the cluster, and starts the back end, so that the devices are known.

    Where the user is to call `jax.distributed.initialize`, nothing is started.

    Raises:
      RuntimeError: JAX's own, as when a back end is already up.
    """
    import jax

    waiting.place()
    if stage.gloo is not None:
        keep_gloo_on(stage.gloo)
    if stage.devices is not None:
        jax.config.update("jax_num_cpu_devices", stage.devices)
    if stage.arguments is None:
        return Initialized(version=jax.__version__)
    allow_going_on()
    with leaves_without_asking():
        jax.distributed.initialize(**stage.arguments)
    explain_second_call(jax.distributed)
    explain_late_devices(jax.config)
    before = listening_ports()
    devices_now = jax.devices()
    return Initialized(
        process_id=jax.process_index(),
        version=jax.__version__,
        local=jax.local_device_count(),
        everywhere=len(devices_now),
        platform=devices_now[0].platform,
        ports=stay_in_step(process, before, processes=stage.processes),
    )


def allow_going_on() -> None:
    """Has JAX let the processes that live go on when one has left, and join another cluster."""
    import jax

    if hasattr(jax.config, "jax_enable_recoverability"):
        jax.config.update("jax_enable_recoverability", True)


def stay_in_step(
    process: Process, before: Collection[int], *, processes: int
) -> tuple[int, ...] | None:
    """Has this process count and prove what it sends to others, once its back end is up.

    Args:
      process: This one.
      before: The ports on which this process listened before.
      processes: How many there are; one alone has nobody to be in step with.

    Returns:
      The ports on which the others connect to it for collectives; None where it counts nothing.
    """
    if processes == 1:
        return None
    step = Step(process.publish_step, before=before, interruptible=process.interrupts.window)
    step.begin()
    refuse_clearing(lambda: step.dispatched.made.in_cell)
    process.step = step
    return tuple(sorted(step.ports))


def refuse_clearing(in_cell: Callable[[], bool]) -> None:
    """Has `clear_backends()` fail in a cell: the process would be without the devices that the others count on.

    Private API: `jax._src.xla_bridge._clear_backends` (jax 0.12.0.1), through which the public function of
    `jax.extend.backend` goes; to import that package takes 0.3 s. Where it is gone a cell can clear the back ends,
    and each cell after it has an error.

    Args:
      in_cell: Whether a cell runs; a repair clears them between two, and JAX when the process ends.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    original = getattr(bridge, "_clear_backends", None)
    if original is None:
        return

    @functools.wraps(original)
    def clear() -> None:
        __tracebackhide__ = True
        if in_cell():
            raise SessionError(
                "clear_backends() would take the devices from this process, and all arrays on them. Nothing was "
                "cleared. del NAME frees an array, jax.clear_caches() what is compiled; "
                f"{command('restart')} begins anew."
            )
        original()

    bridge._clear_backends = clear  # type: ignore[union-attr]


def step_or_new(process: Process) -> Step:
    """What this process counts; of one that is alone, which counts nothing, one in which nothing was counted."""
    return step_of(process) if process.step is not None else Step(process.publish_step, before=())


def step_of(process: Process) -> Step:
    """What this process counts and proves; there is one once it has joined others."""
    assert isinstance(process.step, Step)
    return process.step


def keep_gloo_on(address: str) -> bool:
    """Makes gloo, which carries CPU collectives, listen on `address`.

    By itself it binds whatever this machine's host name resolves to, which may be every colleague's
    network, or an address that does not answer.

    Private API: `jaxlib._jax.make_gloo_tcp_collectives` takes a `hostname` (jaxlib 0.10.2);
    `jax._src.xla_bridge.make_cpu_client` calls it without. Where it is gone gloo binds as before.

    Returns:
      Whether it could be done.
    """
    from jax._src.lib import _jax

    make = getattr(_jax, "make_gloo_tcp_collectives", None)
    if make is None:
        return False
    if not isinstance(make, functools.partial):
        _jax.make_gloo_tcp_collectives = functools.partial(make, hostname=address)
    return True
