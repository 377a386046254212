"""Samples of the user's names, as in `nbdist.engine.probe.samples`, that cover the values of arrays."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.bounds import elements
from nbdist.engine.probe.samples import PLAIN, Sample, Sampler, Seen, gone, is_key
from nbdist.engine.values.arrays import OfferedArray, digest, is_numpy_array
from nbdist.engine.values.parts import OfferArray, Parts, array_of

_NEVER_ARRAYS = (*PLAIN, list, tuple, dict, set)


def digests(
    names: Mapping[str, Any], *, offer_array: OfferArray, frameworks: Sequence[Parts]
) -> dict[str, Sample]:
    """Return a sample of each value; of an array divided over several processes it covers only the kind.

    Args:
      names: The values by name.
      offer_array: `offer_array` of the session's framework.
      frameworks: All imported frameworks; those that build on others come first.
    """

    def seen(value: Any) -> Seen | None:
        if type(value) in _NEVER_ARRAYS:
            return None
        model = next((d for f in frameworks if (d := f.model_digest(value, "", offer_array))), None)
        if model is not None:
            return Seen(model, whole=True, own=False)
        array = array_of(frameworks, value)
        if is_numpy_array(array):
            return None
        if getattr(array, "is_deleted", bool)():
            return gone(array)
        offered = offer_array(array, "")
        return None if offered is None else _seen(array, offered)

    return {name: Sampler(seen, passing=False).of(value) for name, value in names.items()}


def _seen(array: Any, offered: OfferedArray) -> Seen:
    kind = f"array {offered.dtype} {offered.shape} {offered.sharding}"
    alone = offered.sharding is None
    if alone or _is_whole_everywhere(array):
        # Copies that are meant to be equal are not, where each process has computed its own.
        pieces = sorted(offered.pieces, key=lambda piece: piece.bounds)
        kind += " ".join(digest(piece.read()) for piece in pieces)
    return Seen(kind, whole=True, own=alone or is_key(array))


def _is_whole_everywhere(array: Any) -> bool:
    """Return whether each process has all of an array on its devices."""
    jax: Any = sys.modules.get("jax")
    if jax is None or not isinstance(array, jax.Array):
        return False
    whole = elements([[0, size] for size in array.shape])
    found: dict[int, dict[str, int]] = {}
    for device, index in array.sharding.devices_indices_map(tuple(array.shape)).items():
        bounds = [[*part.indices(size)[:2]] for part, size in zip(index, array.shape, strict=True)]
        found.setdefault(device.process_index, {})[str(bounds)] = elements(bounds)
    return all(sum(parts.values()) == whole for parts in found.values())
