"""The compiler's message about a program that does not fit, and the figures in it."""

from __future__ import annotations

import re

from nbdist.contract.program import Program, Refusal

_UNITS = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?"
# Each from the words of a version: JAX 0.10 and 0.12 for TPUs that are not there; libtpu where they are; GPUs.
_FIGURES = (
    re.compile(rf"total memory required for [^()]*\({_SIZE}\) exceeds available HBM \({_SIZE}\)"),
    re.compile(rf"Used {_SIZE} of {_SIZE} hbm"),
)
_REFUSED = re.compile(
    r"Ran out of memory|CompileTimeHbmOom|Out of memory while trying to allocate|out of memory trying to allocate",
    re.IGNORECASE,
)


def refused(error: str, name: str = "") -> Program | None:
    """Return a program that does not fit, from the compiler's error.

    Returns:
      None where the error is about something else.
    """
    if not _REFUSED.search(error):
        return None
    required = available = None
    for figures in _FIGURES:
        if match := figures.search(error):
            required = _bytes(match[1], match[2])
            available = _bytes(match[3], match[4])
            break
    return Program(
        name=name,
        fits=False,
        refusal=Refusal(text=error, required=required, available=available),
    )


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])
