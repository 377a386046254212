"""The memory and arrays that a process held before a signal ended it, in words."""

from __future__ import annotations

from nbdist.merge import Held
from nbdist.quantities import array_type_text, bytes_text, seconds_text


def held_text(held: Held, *, before_s: float) -> str:
    """`memory 8 MB when it last reported, 0.4 s before its end; largest arrays on its devices: w (f32[]) 4 B`."""
    memory = bytes_text(held.rss_bytes)
    text = f"memory {memory} when it last reported, {seconds_text(before_s)} before its end"
    arrays = ", ".join(
        f"{one.path} ({array_type_text(one.dtype, one.shape)}) {bytes_text(one.nbytes)}"
        for one in held.arrays
    )
    return f"{text}; largest arrays on its devices: {arrays}" if arrays else text
