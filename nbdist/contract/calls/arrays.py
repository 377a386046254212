"""Calls about arrays of the user: where their pieces lie, what is in them; and what is done to a widget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdist.contract.calls.call import Call, Done
from nbdist.contract.calls.evaluating import Evaluating, EvaluatingExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class FindShards(EvaluatingExpression[Any]):
    """Where the pieces of one array lie, or of all arrays of a tree."""

    NAME: ClassVar[str] = "shards"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountNan(EvaluatingExpression[Any]):
    """NaN and infinite values in the process's pieces of a tree."""

    NAME: ClassVar[str] = "nan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize(Call[Any]):
    """What the process has of the array under a path, as a report names it; nothing is evaluated."""

    NAME: ClassVar[str] = "summary"
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseWidget(Evaluating[Done]):
    """What a person did to a widget in the notebook.

    Attributes:
      models: The id of the widget on each process that has it, by process id as text.
      data: As the front end has sent it.
      binary: The buffers of that, in Base64.
    """

    NAME: ClassVar[str] = "widget"
    models: Mapping[str, str]
    data: Mapping[str, Any]
    binary: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindLayout(EvaluatingExpression[Any]):
    """The layout of one model or layer; of anything else that holds arrays what `FindShards` answers."""

    NAME: ClassVar[str] = "layout"
