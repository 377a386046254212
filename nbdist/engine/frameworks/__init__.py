"""The frameworks on an engine: one folder for each, found by its name.

No module outside this package imports a framework's folder. Other modules call `framework_named(name)` or
`frameworks()`, and the methods of `nbdist.engine.frameworks.framework.Framework`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from nbdist.engine.values import arrays

if TYPE_CHECKING:
    from nbdist.engine.frameworks.framework import Framework


def names() -> list[str]:
    """Return the names of all frameworks, in alphabetical order: each folder in this package is a framework."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


@functools.cache
def framework_named(name: str) -> Framework:
    """Return the framework of this name; import nothing outside the standard library.

    Raises:
      ImportError: No framework has this name.
    """
    found: Framework = importlib.import_module(f"{__name__}.{name}.framework").FRAMEWORK
    return found


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Return all frameworks; each comes after the framework that it builds on."""
    return tuple(sorted(map(framework_named, names()), key=lambda one: one.builds_on is not None))


def imported() -> list[Framework]:
    """Return the frameworks that this process has imported; each comes before the framework that it builds on."""
    return [one for one in reversed(frameworks()) if one.is_imported()]


def unwrapped(value: Any) -> Any:
    """Return the array for a variable that is named by itself; anything else as it is."""
    for one in imported():
        value = one.unwrapped(value)
    return value


def array_of(value: Any) -> Any:
    """Return the array for a variable wherever it is met; anything else as it is."""
    return arrays.array_of(imported(), value)
