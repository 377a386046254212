"""`Request`: whatever a process, or the agent of a host, can be asked, with the type of its answer.

There are three planes. A `Call` (`nbdist.contract.calls`) goes to a process's main thread, in line with cells. An
`Aside` (`nbdist.contract.asides`) goes past the main thread, also in the middle of a cell. An order
(`nbdist.contract.orders`) goes to the agent of a host, whatever the processes do.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_args

A = TypeVar("A", covariant=True)


class Request(Generic[A]):
    """A dataclass of its arguments, derived with the type of its answer; None where nothing comes back."""

    __slots__ = ()


def answer_of(request: type[Request[Any]]) -> Any:
    """Return the type of the answer to a request; None if nothing comes back."""
    (base,) = request.__dict__["__orig_bases__"]
    (found,) = get_args(base)
    return None if found is type(None) else found
