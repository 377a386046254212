"""Calls that run code a person wrote; all processes may have to run it at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeVar

from nbdist.contract.calls.call import Call

A = TypeVar("A", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating(Call[A]):
    """A call that may compute on the devices of other processes.

    Attributes:
      number: The number of the proof that follows, if all processes take part at the same time; None for a call
        that computes nothing, such as a name.
    """

    number: int | None = None

    def unwanted(self) -> Self:
        """Return this call for a process that only takes part, and whose answer nobody wants."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatingExpression(Evaluating[A]):
    """A call that evaluates an expression in the user's namespace."""

    expression: str
