"""What each framework does on an engine: a folder each, found by its name.

Nothing outside this room imports a framework's folder: it asks `framework_named(name)`, or all of `frameworks()`,
the questions of `nbdist.engine.frameworks.framework.Framework`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from nbdist.engine.values import parts

if TYPE_CHECKING:
    from nbdist.engine.frameworks.framework import Framework


def names() -> list[str]:
    """The names of all frameworks, in alphabetical order: each folder of this one is a framework."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


@functools.cache
def framework_named(name: str) -> Framework:
    """The framework of this name; imports nothing outside the standard library.

    Raises:
      ImportError: There is none.
    """
    found: Framework = importlib.import_module(f"{__name__}.{name}.framework").FRAMEWORK
    return found


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """All of them; those that others build on come before these."""
    return tuple(sorted(map(framework_named, names()), key=lambda one: one.builds_on is not None))


def imported() -> list[Framework]:
    """Those that this process has imported; those that build on others come before these."""
    return [one for one in reversed(frameworks()) if one.is_imported()]


def unwrapped(value: Any) -> Any:
    """The array that a variable by itself stands for; anything else as it is."""
    for one in imported():
        value = one.unwrapped(value)
    return value


def array_of(value: Any) -> Any:
    """The array that a variable stands for wherever it is met; anything else as it is."""
    return parts.array_of(imported(), value)
