"""The frameworks on an engine: one folder for each, found by its name, as a set of capabilities.

No module outside this package imports a framework's folder. Other modules call `framework_named(name)` or
`each(capability)`, and use the fields of `nbdist.engine.frameworks.framework.Framework`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from nbdist.engine.cell.stacks import packages_of
from nbdist.engine.values import arrays

if TYPE_CHECKING:
    from nbdist.engine.frameworks.framework import Framework, Load
    from nbdist.engine.probe.classes import Library
    from nbdist.engine.values.arrays import Parts

C = TypeVar("C")


def names() -> list[str]:
    """Return the names of all frameworks, in alphabetical order: each folder in this package is a framework."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


@functools.cache
def framework_named(name: str) -> Framework:
    """Return the framework of this name; import nothing outside the standard library.

    Raises:
      ImportError: No framework has this name.
    """
    found: Framework = importlib.import_module(f"{__name__}.{name}").FRAMEWORK
    return found


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Return all frameworks; each comes after the framework that it builds on."""
    return tuple(sorted(map(framework_named, names()), key=lambda one: one.builds_on is not None))


def imported() -> list[Framework]:
    """Return the frameworks that this process has imported; each comes before the framework that it builds on."""
    return [one for one in reversed(frameworks()) if one.is_imported()]


def each(capability: Callable[[Framework], Load[C] | None]) -> list[C]:
    """Return a capability of each framework that this process has imported and that has it, in that order.

    Args:
      capability: Returns the capability's field, such as `lambda one: one.plans`.
    """
    return [load() for one in imported() if (load := capability(one)) is not None]


def parts() -> list[Parts]:
    """Return how the imported frameworks take values apart; each comes before the one that it builds on."""
    return each(lambda one: one.parts)


def libraries() -> list[Library]:
    """Return the libraries of all imported frameworks, for a walk over objects."""
    return each(lambda one: one.library)


def packages() -> frozenset[str]:
    """Return the packages of all frameworks, for a walk over objects."""
    return packages_of(frameworks())


def unwrapped(value: Any) -> Any:
    """Return the array for a variable that is named by itself; anything else as it is."""
    for one in parts():
        value = one.unwrapped(value)
    return value


def array_of(value: Any) -> Any:
    """Return the array for a variable wherever it is met; anything else as it is."""
    return arrays.array_of(parts(), value)
