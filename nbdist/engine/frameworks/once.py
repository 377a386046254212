"""Wrappers of a framework's own functions: notes for its errors, and a callback after its `initialize`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from nbdist.spelling import Placeholder, command, option, start_with


def explain_second_call(module: ModuleType) -> None:
    """Wrap `module.initialize`: the error of a second call says that the start has already made the call.

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


def explain_late_devices(config: Any) -> None:
    """Wrap `jax.config.update`: the error for another number of devices says what to type.

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
    """Wrap `module.initialize`: call `then` after each call that succeeds."""
    original = module.initialize

    @functools.wraps(original)
    def initialize(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        result = original(*args, **options)
        then()
        return result

    module.initialize = initialize  # type: ignore[attr-defined]
