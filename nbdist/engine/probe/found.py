"""Descriptions as reports have them, as the answer to who asks for one expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbdist.contract.calls.arrays import ArraysFound, ModelFound
from nbdist.contract.snapshot import Array, Distribution, Mesh, Model
from nbdist.contract.wire import decode


def arrays_found(
    expression: str,
    arrays: Iterable[Mapping[str, Any]],
    meshes: Iterable[Mapping[str, Any]],
    *,
    same: Mapping[str, str] | None = None,
    omitted: int = 0,
    closed: int = 0,
) -> ArraysFound:
    """The arrays of an expression; see `ArraysFound` for what is what."""
    return ArraysFound(
        expression=expression,
        arrays=tuple(decode(Array, one) for one in arrays),
        meshes=tuple(decode(Mesh, one) for one in meshes),
        same=same or {},
        omitted=omitted,
        closed=closed,
    )


def model_found(
    model: Mapping[str, Any],
    meshes: Iterable[Mapping[str, Any]],
    distributions: Iterable[Mapping[str, Any]],
) -> ModelFound:
    """A model with what it refers to."""
    return ModelFound(
        model=decode(Model, model),
        meshes=tuple(decode(Mesh, one) for one in meshes),
        distributions=tuple(decode(Distribution, one) for one in distributions),
    )
