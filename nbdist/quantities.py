"""Numbers as nbdist prints them: bytes, seconds, counts, processes, array types.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise

_DTYPE = re.compile(r"(float|bfloat|uint|int|complex)(\d.*)")
_LETTER = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i", "complex": "c"}


def bytes_text(count: int) -> str:
    """`65536` → `64 KB`. KB to PB are powers of 1024, as the frameworks count memory.

    At most one decimal, none from 100 up, halves rounded up: as `bytesText` of the view does
    (the tests of both read `tests/golden/texts/bytes.json`).
    """
    value, unit = Decimal(count), "B"
    for larger in ("KB", "MB", "GB", "TB", "PB"):
        # 1023.6 would be printed as 1024.
        if value < Decimal("1023.5"):
            break
        value, unit = value / 1024, larger
    places = Decimal(1) if value >= Decimal("99.95") else Decimal("0.1")
    return f"{value.quantize(places, ROUND_HALF_UP)} {unit}".replace(".0 ", " ")


def seconds_text(seconds: float) -> str:
    """`3.2` → `3.2 s`, `125` → `2 min 5 s`, `3725` → `1 h 2 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole // 60, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def count_text(count: int, noun: str) -> str:
    """`(4, "process")` → `4 processes`; `(1, "copy")` → `1 copy`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def not_looked_at(arrays: int, containers: int) -> str:
    """`not looked at: 3 arrays, 1 container that lies too deep`; empty where all was."""
    parts = [count_text(arrays, "more array")] if arrays else []
    if containers:
        lies = "lies too deep or is one" if containers == 1 else "lie too deep or are"
        parts.append(f"{count_text(containers, 'container')} that {lies} too many")
    return f"not looked at: {', '.join(parts)}" if parts else ""


def processes_text(ids: Iterable[int]) -> str:
    """`[0, 1, 2, 3, 5]` → `processes 0–3, 5`; `[2]` → `process 2`; none → `no process`."""
    ordered = sorted(set(ids))
    if not ordered:
        return "no process"
    return f"{'process' if len(ordered) == 1 else 'processes'} {ranges_text(ordered)}"


def ranges_text(ordered: Sequence[int]) -> str:
    """`[0, 1, 2, 5, 6]` → `0–2, 5, 6`. The numbers rise; a range stands for three or more."""
    ends = [index + 1 for index, (a, b) in enumerate(pairwise(ordered)) if b != a + 1]
    parts = []
    for start, stop in zip([0, *ends], [*ends, len(ordered)], strict=True):
        run = ordered[start:stop]
        parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(number) for number in run]
    return ", ".join(parts)


def dtype_text(dtype: str) -> str:
    """`float32` → `f32`, `bfloat16` → `bf16`, `key<fry>` unchanged.

    Source: JAX's own short names, as in the text of a `jax.ShapeDtypeStruct` in a jaxpr.
    """
    match = _DTYPE.fullmatch(dtype)
    return f"{_LETTER[match[1]]}{match[2]}" if match else dtype


def array_type_text(dtype: str, shape: Sequence[int]) -> str:
    """`("float32", (512, 256))` → `f32[512, 256]`; a scalar is `f32[]`."""
    return f"{dtype_text(dtype)}[{', '.join(map(str, shape))}]"


def hosts_text(hosts: Iterable[str]) -> str:
    """`host h1`, or `hosts h1, h2`, each once, in the order given."""
    names = list(dict.fromkeys(hosts))
    return f"{'host' if len(names) == 1 else 'hosts'} {', '.join(names)}"


MOST_HOSTS = 4
"""So many hosts are named behind processes; of more, their number."""


def where_text(process_ids: Iterable[int], hosts: Mapping[int, str]) -> str:
    """`processes 0, 2, 3 (host h1)`; `process 2` where the session has one host only.

    Args:
      process_ids: Some processes of the session.
      hosts: Of all its processes, by id.
    """
    ids = sorted(process_ids)
    if len(set(hosts.values())) < 2:
        return processes_text(ids)
    names = list(dict.fromkeys(hosts[process_id] for process_id in ids))
    of = hosts_text(names) if len(names) <= MOST_HOSTS else count_text(len(names), "host")
    return f"{processes_text(ids)} ({of})"


MOST_NAMES = 8
"""So many names are listed; of more the rest is counted."""


def names_text(names: Iterable[str]) -> str:
    """`["w", "b"]` → `w, b`; of more than eight the first seven, and how many more there are."""
    listed = list(names)
    if len(listed) <= MOST_NAMES:
        return ", ".join(listed)
    return f"{', '.join(listed[: MOST_NAMES - 1])} and {len(listed) - MOST_NAMES + 1} more"
