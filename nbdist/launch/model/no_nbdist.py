"""A Python without nbdist: how to recognize it, and what to type."""

from __future__ import annotations

from collections.abc import Iterable

from nbdist.spelling import option
from nbdist.version import __version__


def other_python() -> str:
    """Return the alternative to installing nbdist."""
    return f"or name another interpreter with {option('remote_python')}"


def lacks_nbdist(lines: Iterable[str]) -> bool:
    """Return whether a Python that was to run nbdist reports that it has none."""
    return any("No module named" in line and "nbdist" in line for line in lines)


def install_nbdist(who: str, python: str, *, host: str | None, otherwise: str) -> str:
    """Return the command that installs nbdist.

    Args:
      who: Who lacks nbdist, such as `Engine 3 (host h2)`.
      python: The interpreter.
      host: The interpreter's host; None: each host.
      otherwise: An alternative, or what must be done afterwards.
    """
    where = "On the hosts" if host is None else f"On {host}"
    return f"{who} has no nbdist. {where} run: {python} -m pip install nbdist=={__version__}; {otherwise}."
