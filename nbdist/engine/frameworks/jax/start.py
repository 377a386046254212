"""Start of JAX on an engine: the process joins the cluster, and the programs that it sends are counted.

On an engine that somebody else has started, JAX may be up already: `joined`, `configure` and `devices` start
nothing. The start makes some of JAX's functions safe for cells: an interrupt can end the wait for other processes
in `process_allgather`, and `clear_backends()` is refused.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

from nbdist.contract.calls.engine import Initialized, JaxStage, Membership, UsedDevices
from nbdist.engine.frameworks.interfaces import ThisProcess
from nbdist.engine.frameworks.jax import describe, private
from nbdist.engine.frameworks.jax.repair.backend import leaves_without_asking
from nbdist.engine.frameworks.jax.step import Step
from nbdist.engine.frameworks.jax.step.cut import listening_ports
from nbdist.errors import SessionError
from nbdist.spelling import Placeholder, command, option, start_with


def joined() -> Membership | None:
    """Return this process's id in a cluster of JAX and the number of processes; None while it is in none."""
    state: Any = private.GLOBAL_STATE.get()
    if private.client_with() is None:
        return None
    return Membership(process_id=int(state.process_id), count=int(state.num_processes))


def configure(environment: Mapping[str, str]) -> list[str]:
    """Set environment variables in JAX's configuration, since JAX reads variables only when it is imported.

    Returns:
      The names of variables that come too late: `jax.config` has no option of their name.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    late = []
    for name, value in environment.items():
        known = name.lower() if hasattr(jax.config, name.lower()) else None
        if known is None:
            late.append(name)
        else:
            jax.config.update(known, {"true": True, "false": False}.get(value.lower(), value))
    return late


def devices() -> UsedDevices | None:
    """Return the numbers and the platform of the back end's devices; None while no back end is up."""
    if not describe.ready():
        return None
    jax = sys.modules["jax"]
    devices = jax.devices()
    return UsedDevices(
        local=jax.local_device_count(), everywhere=len(devices), platform=devices[0].platform
    )


is_up = describe.ready


def place() -> bool:
    """Make `process_allgather` wait for its collective in JAX, where an interrupt can end the wait, not in NumPy.

    NumPy's conversion of a JAX array waits in C++ and passes no signal on to Python, so that a process whose
    peers do not come would never return from it. `sync_global_devices` and `assert_equal` wait there. Each
    `device_put` to devices of several processes calls `assert_equal`; Keras' `assign` between two epochs is one.

    Returns:
      Whether the hook is in place; a second call changes nothing.
    """
    importlib.import_module(private.NUMPY.module)
    numpy = private.NUMPY.get()
    if not hasattr(numpy, "asarray"):
        return False
    if not isinstance(numpy, _WaitingNumpy):
        private.NUMPY.set(_WaitingNumpy(numpy))
    return True


class _WaitingNumpy:
    """A stand-in for NumPy in one module, with its own `asarray`."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpy, name)

    def asarray(self, value: Any, *arguments: Any, **options: Any) -> Any:
        """Return NumPy's `asarray`, after `block_until_ready` for a JAX array, which an interrupt can end."""
        if hasattr(value, "block_until_ready"):
            value.block_until_ready()
        return self._numpy.asarray(value, *arguments, **options)


def initialize(process: ThisProcess, stage: JaxStage) -> Initialized:
    """Join the cluster and start the back end, so that the devices are known.

    Where the user is to call `jax.distributed.initialize`, nothing is started.

    Raises:
      RuntimeError: Raised by JAX, for example when a back end is already up.
    """
    import jax

    place()
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
    """Configure JAX so that processes go on after one has left, and can then join another cluster."""
    import jax

    if hasattr(jax.config, "jax_enable_recoverability"):
        jax.config.update("jax_enable_recoverability", True)


def stay_in_step(
    process: ThisProcess, before: Collection[int], *, processes: int
) -> tuple[int, ...] | None:
    """Begin to count and prove the programs that this process sends, once its back end is up.

    Args:
      process: This process.
      before: The ports on which this process listened before the back end was up.
      processes: The number of processes; a process that is alone counts no programs.

    Returns:
      The ports on which other processes connect to this one for collectives; None if no programs are counted.
    """
    if processes == 1:
        return None
    step = Step(process.publish_step, before=before, interruptible=process.interrupts.window)
    step.begin()
    refuse_clearing(lambda: step.dispatched.made.in_cell)
    process.step = step
    return tuple(sorted(step.ports))


def refuse_clearing(in_cell: Callable[[], bool]) -> None:
    """Make `clear_backends()` fail in a cell: the process would lose the devices that the others count on.

    Args:
      in_cell: Returns whether a cell runs. Repairs clear back ends between cells, JAX when the process ends.
    """
    original = private.CLEAR_BACKENDS.get()
    if original is None:
        return

    @functools.wraps(original)
    def clear() -> None:
        __tracebackhide__ = True
        if in_cell():
            raise SessionError(
                "clear_backends() would take the devices from this process, and all arrays on them. Nothing was "
                "cleared. del NAME frees an array, jax.clear_caches() compiled programs; "
                f"{command('restart')} begins anew."
            )
        original()

    private.CLEAR_BACKENDS.set(clear)


def step_or_new(process: ThisProcess) -> Step:
    """Return this process's `Step`; a new, empty one for a process that is alone and counts no programs."""
    return step_of(process) if process.step is not None else Step(process.publish_step, before=())


def step_of(process: ThisProcess) -> Step:
    """Return this process's `Step`, which exists once the process has joined others."""
    assert isinstance(process.step, Step)
    return process.step


def keep_gloo_on(address: str) -> bool:
    """Make gloo, which carries CPU collectives, listen on `address`.

    By default gloo binds the address to which this machine's host name resolves. That address may be open to other
    people's machines, or unreachable.

    Returns:
      Whether gloo will listen there.
    """
    make = private.MAKE_GLOO.get()
    if make is None:
        return False
    if not isinstance(make, functools.partial):
        private.MAKE_GLOO.set(functools.partial(make, hostname=address))
    return True


def explain_second_call(module: ModuleType) -> None:
    """Wrap `module.initialize` so that the error of a second call says that nbdist has made the first.

    Args:
      module: A module whose `initialize` raises when it is called again.
    """
    original = module.initialize

    @functools.wraps(original)
    def initialize(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            return original(*args, **options)
        except Exception as error:
            error.add_note(
                f"{command('start')} has already called {module.__name__}.initialize with this process's id; "
                f"leave this line out, or start with {option('initialize', False)} to call it yourself."
            )
            raise

    module.initialize = initialize  # type: ignore[attr-defined]


NUMBER_OF_DEVICES = "jax_num_cpu_devices"
"""Option of JAX for the number of CPU devices of a process."""


def explain_late_devices(config: Any) -> None:
    """Wrap `jax.config.update` so that its error for another number of devices says what to type.

    Args:
      config: `jax.config`; its `update` refuses the number once a back end is up.
    """
    original = config.update

    @functools.wraps(original)
    def update(name: str, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            return original(name, *args, **options)
        except RuntimeError as error:
            if name == NUMBER_OF_DEVICES:
                count = next(iter([*args, *options.values()]), Placeholder("N"))
                error.add_note(
                    f"{command('start')} has set the number of devices. For another number: "
                    f"{command('shutdown')}, then {start_with('devices_per_process', count)} "
                    "with your other options."
                )
            raise

    config.update = update


def after_users_call(module: ModuleType, then: Callable[[], object]) -> None:
    """Wrap `module.initialize` so that `then` is called after each call that succeeds."""
    original = module.initialize

    @functools.wraps(original)
    def initialize(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        result = original(*args, **options)
        then()
        return result

    module.initialize = initialize  # type: ignore[attr-defined]
