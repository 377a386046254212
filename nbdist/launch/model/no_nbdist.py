"""A Python that has no nbdist: how that shows, and what to type."""

from __future__ import annotations

from collections.abc import Iterable

from nbdist.spelling import option
from nbdist.version import __version__


def other_python() -> str:
    """What may be done instead of installing it."""
    return f"or name another interpreter with {option('remote_python')}"


def lacks_nbdist(lines: Iterable[str]) -> bool:
    """Whether a Python that was to run nbdist says that it has none."""
    return any("No module named" in line and "nbdist" in line for line in lines)


def install_nbdist(who: str, python: str, *, host: str | None, otherwise: str) -> str:
    """What to type.

    Args:
      who: What has none, such as `Engine 3 (host h2)`.
      python: The interpreter.
      host: Where it is; None: on each host.
      otherwise: What may be done instead, or must be done then.
    """
    where = "On the hosts" if host is None else f"On {host}"
    return f"{who} has no nbdist. {where} run: {python} -m pip install nbdist=={__version__}; {otherwise}."
