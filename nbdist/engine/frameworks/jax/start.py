"""JAX's answers to the questions every framework is asked: initialize, explain, interrupt."""

from __future__ import annotations

import functools
import signal
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdist.engine import flax
from nbdist.engine.frameworks.jax import waiting
from nbdist.engine.frameworks.jax.arrays import check_array, offer_array, placed
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.engine.frameworks.jax.repair.repair import Repair
from nbdist.engine.frameworks.jax.step.sockets import listening_ports
from nbdist.engine.frameworks.jax.step.step import Step
from nbdist.engine.frameworks.jax.tree import describe_tree
from nbdist.engine.frameworks.jax.versions import forget, versions
from nbdist.engine.frameworks.keras.variables import unwrapped
from nbdist.engine.frameworks.once import explain_late_devices, explain_second_call

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

__all__ = ["INTERRUPT", "explain", "initialize", "keep_gloo_on", "offer_array", "placed"]

INTERRUPT = signal.SIGINT
"""Frees a process that waits in a JAX collective (measured: 0.1 to 0.3 s); the collectives of the
session are out of step afterwards."""


def initialize(
    resident: Resident,
    *,
    devices: int | None,
    arguments: Mapping[str, Any] | None,
    gloo: str | None,
) -> dict[str, Any]:
    """Joins the cluster, and starts the back end, so that the devices are known.

    Args:
      resident: This engine.
      devices: Virtual CPU devices of this process; None: what the platform gives.
      arguments: Keyword arguments of `jax.distributed.initialize`; None: leave it to the user, and start
        nothing.
      gloo: The address of this host on which gloo is to listen; None: as JAX chooses.

    Returns:
      `process_id`, `version`, and the numbers of `local` and `global` devices and their `platform`.

    Raises:
      RuntimeError: JAX's own, as when a back end is already up.
    """
    import jax

    waiting.place()
    if gloo is not None:
        keep_gloo_on(gloo)
    if devices is not None:
        jax.config.update("jax_num_cpu_devices", devices)
    if arguments is None:
        return {"version": jax.__version__}
    allow_going_on()
    jax.distributed.initialize(**arguments)
    explain_second_call(jax.distributed)
    explain_late_devices(jax.config)
    before = listening_ports()
    devices_now = jax.devices()
    return {
        "process_id": jax.process_index(),
        "version": jax.__version__,
        "local": jax.local_device_count(),
        "global": len(devices_now),
        "platform": devices_now[0].platform,
        **stay_in_step(resident, before, processes=arguments["num_processes"]),
    }


def allow_going_on() -> None:
    """Has JAX let the processes that live go on when one has left, and join another cluster."""
    import jax

    if hasattr(jax.config, "jax_enable_recoverability"):
        jax.config.update("jax_enable_recoverability", True)


def stay_in_step(resident: Resident, before: Collection[int], *, processes: int) -> dict[str, Any]:
    """Has this process count and prove what it sends to others, once its back end is up.

    Args:
      resident: This engine.
      before: The ports on which this process listened before.
      processes: How many there are; one alone has nobody to be in step with.

    Returns:
      `ports`, on which the others connect to it for collectives.
    """
    if processes == 1:
        return {}
    step = Step(resident.publish_step, before=before, interruptible=resident.interrupts.window)
    step.begin()
    resident.step = step
    return {"ports": sorted(step.ports)}


def repair(resident: Resident) -> Repair:
    """A repair of this process that has just begun."""
    assert isinstance(resident.step, Step)
    return Repair(resident.shell.user_ns, folder=resident.folder, step=resident.step)


def versions_of(resident: Resident) -> dict[str, Any]:
    """The origin of each array on several processes; see `nbdist.engine.frameworks.jax.versions`."""
    assert isinstance(resident.step, Step)
    return versions(resident.shell.user_ns, resident.step)


def forget_mixed(
    resident: Resident, paths: Collection[str], unnamed: Collection[Sequence[Any]]
) -> list[str]:
    """Takes arrays whose pieces do not belong together; see `nbdist.engine.frameworks.jax.versions.forget`."""
    assert isinstance(resident.step, Step)
    return forget(resident.shell.user_ns, resident.step, paths=paths, unnamed=unnamed)


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


def explain(value: Any, expression: str) -> dict[str, Any]:
    """Where the pieces of an array lie, of what a Keras variable holds, or of all arrays of a tree or module.

    Returns:
      `arrays` as a report describes them, whose paths begin with `expression` (in brackets where it needs them),
      the `meshes` they refer to, `same`: by path the path of an earlier one that is this very array, and
      what was not looked at: `omitted` arrays and `closed` containers.

    Raises:
      ArrayError: It holds no arrays, or is one without values.
    """
    import jax

    value = flax.unwrapped(unwrapped(value))
    check_array(jax, value, expression, partial_sums=True)
    if isinstance(value, jax.Array):
        described, meshes = describe(value)
        arrays = [{**described, "path": expression}]
        return {
            "expression": expression,
            "arrays": arrays,
            "meshes": meshes,
            "same": {},
            "omitted": 0,
            "closed": 0,
        }
    return describe_tree(value, expression)
