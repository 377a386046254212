"""Notation of nbdist's texts: how numbers, array types, meshes, specs, slices, names and tables are written.

Meshes, specs, shapes and slices are in the notation of the field; quantities have units that people read; long
names are shortened so that no two look alike; tables have aligned columns and are cut where a screen ends. Ranges
of numbers, `0-3,5`, `01-64`, `0-10:2`, are read here as well.

Source: imports nothing outside the standard library at module level; `dtype_named` imports NumPy and ml_dtypes.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Any

from nbdist.contract.snapshot import Array, Mesh, Slices


def slices_text(slices: Slices) -> str:
    """Return slices as `[0:128, 0:256]`; `scalar` for an array without dimensions."""
    if not slices:
        return "scalar"
    return f"[{', '.join(f'{start}:{stop}' for start, stop in slices)}]"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as `128 × 256`; `scalar` for an array without dimensions."""
    return " × ".join(map(str, shape)) if shape else "scalar"


def mesh_axes_text(mesh: Mesh) -> str:
    """Return the axes of a mesh as `data=4 × model=2`."""
    return " × ".join(f"{axis.name}={axis.size}" for axis in mesh.axes)


def spec_text(array: Array) -> str:
    """Return the spec of an array as JAX prints it, `P('data', None)`; for other shardings a few words."""
    sharding = array.sharding
    if sharding.kind == "named":
        unreduced = [f"unreduced={{{', '.join(map(repr, sharding.unreduced))}}}"]
        entries = [*map(_entry_text, sharding.spec), *(unreduced if sharding.unreduced else [])]
        return f"P({', '.join(entries)})"
    return {"single": "one device", "per_process": "each process its own", "indexed": "by index"}[
        sharding.kind
    ]


def entries_text(spec: tuple[tuple[str, ...], ...]) -> str:
    """Return the spec of an array or variable as `P(None, 'model')`."""
    return f"P({', '.join(map(_entry_text, spec))})"


def asked_text(axes: tuple[str | None, ...]) -> str:
    """Return the axes that a rule of a layout map asks for as a spec: `P(None, 'model')`."""
    return entries_text(tuple(() if axis is None else (axis,) for axis in axes))


def _entry_text(axes: tuple[str, ...]) -> str:
    if not axes:
        return "None"
    return repr(axes[0]) if len(axes) == 1 else f"({', '.join(map(repr, axes))})"


_DTYPE = re.compile(r"(float|bfloat|uint|int|complex)(\d.*)")
_LETTER = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i", "complex": "c"}


def bytes_text(count: int) -> str:
    """Return `64 KB` for 65536. KB to PB are powers of 1024, as the frameworks count memory.

    There is at most one decimal, none from 100 up, and halves are rounded up, as by `bytesText` of the view (the
    tests of both read `tests/golden/texts/bytes.json`).
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
    """Return seconds as people say them: 3.2 as `3.2 s`, 125 as `2 min 5 s`, 3725 as `1 h 2 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole // 60, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def count_text(count: int, noun: str) -> str:
    """Return a number and its noun: `(4, "process")` → `4 processes`; `(1, "entry")` → `1 entry`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def not_looked_at(arrays: int, containers: int) -> str:
    """Return `not looked at: 3 more arrays, 1 container that lies too deep or is one too many`; empty for none."""
    parts = [count_text(arrays, "more array")] if arrays else []
    if containers:
        lies = "lies too deep or is one" if containers == 1 else "lie too deep or are"
        parts.append(f"{count_text(containers, 'container')} that {lies} too many")
    return f"not looked at: {', '.join(parts)}" if parts else ""


def processes_text(ids: Iterable[int]) -> str:
    """Return ids as text: `[0, 1, 2, 3, 5]` → `processes 0–3, 5`; `[2]` → `process 2`; none → `no process`."""
    ordered = sorted(set(ids))
    if not ordered:
        return "no process"
    return f"{'process' if len(ordered) == 1 else 'processes'} {ranges_text(ordered)}"


def capital(text: str) -> str:
    """Return a text of nbdist's own with its first letter made large, to begin a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def ranges_text(ordered: Sequence[int]) -> str:
    """Return rising numbers as text: `[0, 1, 2, 5, 6]` → `0–2, 5, 6`. A range stands for three or more."""
    ends = [index + 1 for index, (a, b) in enumerate(pairwise(ordered)) if b != a + 1]
    parts = []
    for start, stop in zip([0, *ends], [*ends, len(ordered)], strict=True):
        run = ordered[start:stop]
        parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(number) for number in run]
    return ", ".join(parts)


def dtype_text(dtype: str) -> str:
    """Return the short name of a dtype: `float32` → `f32`, `bfloat16` → `bf16`, `key<fry>` unchanged.

    Source: JAX's own short names, as in the text of a `jax.ShapeDtypeStruct` in a jaxpr.
    """
    match = _DTYPE.fullmatch(dtype)
    return f"{_LETTER[match[1]]}{match[2]}" if match else dtype


def array_type_text(dtype: str, shape: Sequence[int]) -> str:
    """Return dtype and shape as text: `("float32", (512, 256))` → `f32[512, 256]`; a scalar is `f32[]`."""
    return f"{dtype_text(dtype)}[{', '.join(map(str, shape))}]"


def hosts_text(hosts: Iterable[str]) -> str:
    """Return `host h1`, or `hosts h1, h2`: each host once, in the order given."""
    names = list(dict.fromkeys(hosts))
    return f"{'host' if len(names) == 1 else 'hosts'} {', '.join(names)}"


MOST_HOSTS = 4
"""The most hosts that are named after processes; of more hosts only the number is given."""


def where_text(process_ids: Iterable[int], hosts: Mapping[int, str]) -> str:
    """Return `processes 0, 2, 3 (host h1)`; without the hosts if the session has only one.

    Args:
      process_ids: Some processes of the session.
      hosts: The hosts of all processes of the session, by process id.
    """
    ids = sorted(process_ids)
    if len(set(hosts.values())) < 2:
        return processes_text(ids)
    names = list(dict.fromkeys(hosts[process_id] for process_id in ids))
    of = hosts_text(names) if len(names) <= MOST_HOSTS else count_text(len(names), "host")
    return f"{processes_text(ids)} ({of})"


ONE_HOST = "NBDIST_ONE_HOST"
"""Environment variable, set if all processes of the session are on one host: texts then name no host."""


def on_host_text(process_ids: Iterable[int], host: str) -> str:
    """Return the name of processes of one host in texts for people, such as `process 1 (host h1)`.

    Where the session has no other host, the name is `process 1`.
    """
    processes = processes_text(sorted(process_ids))
    return processes if ONE_HOST in os.environ else f"{processes} (host {host})"


MOST_NAMES = 8
"""The most names that are listed in full; of more, the rest is counted."""


def names_text(names: Iterable[str]) -> str:
    """Return names as `w, b`; of more than eight the first seven, and how many more there are."""
    listed = list(names)
    if len(listed) <= MOST_NAMES:
        return ", ".join(listed)
    return f"{', '.join(listed[: MOST_NAMES - 1])} and {len(listed) - MOST_NAMES + 1} more"


def dtype_name(dtype: Any) -> Any:
    """Return the name of a NumPy dtype in a form that JSON carries; `dtype_named` reads it."""
    if dtype.names is not None:
        return dtype.descr
    # A dtype's name omits the byte order; its `str` does not know the types of ml_dtypes.
    return dtype.name if is_named(dtype.name, dtype) else dtype.str


def is_named(name: Any, dtype: Any) -> bool:
    """Return whether `dtype_named` gives this dtype for that name."""
    try:
        return bool(dtype_named(name) == dtype)
    except (TypeError, ValueError, AttributeError, ImportError):
        return False


def dtype_named(name: Any) -> Any:
    """Return the NumPy dtype of that name, also for types of ml_dtypes (`bfloat16`, `float8_e4m3fn`)."""
    import numpy

    if not isinstance(name, str):
        return numpy.dtype([_field(entry) for entry in name])
    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))


def _field(entry: Sequence[Any]) -> tuple[Any, ...]:
    name, kind, *shape = entry
    read = kind if isinstance(kind, str) else [_field(inner) for inner in kind]
    return (name, read, *(tuple(size) for size in shape))


GAP = "…"
SMALLEST_WIDTH = 8
_TOKEN = re.compile(r"\w+|\W+")


def shorten(names: Sequence[str], width: int) -> tuple[str, ...]:
    """Fit every name into `width` characters.

    Names that fit stay as they are. The others keep the words in which they differ from the rest,
    then their first and last words, then what else fits from the end; `…` stands for what is left
    out. Where the words that differ do not fit, a number tells the names apart.

    Args:
      names: Python expressions or host names; equal names get equal texts.
      width: At least 8.

    Returns:
      One text for each name, in the same order; different for different names.

    Raises:
      ValueError: `width` is too small.
    """
    if width < SMALLEST_WIDTH:
        raise ValueError(f"width is {width}; allowed: at least {SMALLEST_WIDTH}")
    unique = tuple(dict.fromkeys(names))
    if all(len(name) <= width for name in unique):
        return tuple(names)
    tokens = {name: tuple(_TOKEN.findall(name)) for name in unique}
    branches = _branches(tokens.values())
    texts = {
        name: name if len(name) <= width else _by_words(tokens[name], branches, width)
        for name in unique
    }
    _number_repeated(texts, width)
    return tuple(texts[name] for name in names)


def _branches(every: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], set[str]]:
    """Return the words that follow each beginning; where there are several, they tell names apart."""
    followers: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for tokens in every:
        for index, token in enumerate((*tokens, "")):
            followers[tokens[:index]].add(token)
    return followers


def _by_words(
    tokens: tuple[str, ...], branches: dict[tuple[str, ...], set[str]], width: int
) -> str:
    words = [index for index, token in enumerate(tokens) if token[0].isalnum() or token[0] == "_"]
    differing = {index for index in range(len(tokens)) if len(branches[tokens[:index]]) > 1}
    kept = set(differing)
    # The words in which the name differs first; of the rest the ends say most.
    for index in dict.fromkeys([*words[-1:], *words[:1], *reversed(words)]):
        if len(_assemble(tokens, kept | {index})) <= width:
            kept.add(index)
    text = _assemble(tokens, kept)
    return text if len(text) <= width else _cut("".join(tokens), width)


def _assemble(tokens: tuple[str, ...], kept: set[int]) -> str:
    """Return the kept tokens, the punctuation between two kept words, and a gap for each run left out."""
    parts: list[str] = []
    for index, token in enumerate(tokens):
        between = not token[0].isalnum() and {index - 1, index + 1} <= kept | {-1, len(tokens)}
        if index in kept or between:
            parts.append(token)
        elif parts[-1:] != [GAP]:
            parts.append(GAP)
    return "".join(parts)


def _cut(name: str, width: int, between: str = GAP) -> str:
    head = (width - len(between)) // 2
    tail = width - len(between) - head
    return f"{name[:head]}{between}{name[len(name) - tail :]}"


def _number_repeated(texts: dict[str, str], width: int) -> None:
    """Put a number into the gap of every name whose text another name has as well."""
    counts = Counter(texts.values())
    taken = {text for text, count in counts.items() if count == 1}
    for name, text in texts.items():
        if counts[text] == 1:
            continue
        number = 1
        while (numbered := _cut(name, width, f"{GAP}{number}{GAP}")) in taken:
            number += 1
        texts[name] = numbered
        taken.add(numbered)


ROWS = 40
"""Rows shown of a long list; the rest is counted in a last line."""

WIDTH = 100
"""Characters in a line if the caller names no other width."""


def columns(rows: Sequence[Sequence[str]], *, gap: int = 2, right: Sequence[int] = ()) -> list[str]:
    """Return one line for each row, each column as wide as its longest cell.

    Args:
      rows: Cells; all rows have the same number.
      gap: Spaces between columns.
      right: The numbers of the columns that are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * gap)
        .join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in rows
    ]


def cut(text: str, width: int) -> str:
    """Return a text, or if it is too long its beginning, with `…` for the rest."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


MOST_NUMBERS = 100_000
"""The most numbers, or hosts, that one text may stand for."""

RANGES_FORM = "numbers and ranges, such as 0-3,5 or 0-10:2"

_RANGE = re.compile(r"(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18})(?::(?P<step>[0-9]{1,18}))?)?")


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A number, or a range of them with both ends, as it was written.

    `width` is the least number of digits, which zeros in front make up: `08-11` has 2.
    """

    numbers: range
    width: int = 1

    def texts(self) -> list[str]:
        """Return the numbers with the zeros they were written with."""
        return [str(number).zfill(self.width) for number in self.numbers]


def read_range(text: str) -> NumberRange:
    """Return the range of `5`, `0-3` or `0-10:2`; the width is that of the first number: `01-100` ends at `100`.

    Source: `--array` of sbatch(1) for the step, Slurm's lists of hosts for the width.

    Raises:
      ValueError: It is none, runs backwards or has a step of 0; in words that follow what was given.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        what = (
            f"{text.strip()!r} is no number and no range" if text.strip() else "a number is missing"
        )
        raise ValueError(f"{what}. Expected {RANGES_FORM}.")
    first, last, step = (match["first"], match["last"] or match["first"], match["step"] or "1")
    if int(last) < int(first):
        raise ValueError(f"the range {first}-{last} runs backwards. Write {last}-{first}.")
    if int(step) == 0:
        raise ValueError(
            f"the range {match[0]} has a step of 0. Leave :{step} out, or write 1 or more."
        )
    return NumberRange(range(int(first), int(last) + 1, int(step)), len(first))


def read_ranges(text: str) -> list[NumberRange]:
    """Return the ranges of `0-3,5`, in the order in which they stand there; both ends count.

    Raises:
      ValueError: One that cannot be read (see `read_range`), or more than 100,000 numbers in all.
    """
    ranges = [read_range(part) for part in text.split(",")]
    refuse_too_many(numbers_count(ranges), "numbers")
    return ranges


def numbers_in(text: str) -> list[int]:
    """Return the numbers of `0-3,5`, in the order in which they stand there.

    Raises:
      ValueError: See `read_ranges`.
    """
    return [number for each in read_ranges(text) for number in each.numbers]


def numbers_count(ranges: Sequence[NumberRange]) -> int:
    """Return how many numbers these are."""
    return sum(len(each.numbers) for each in ranges)


def refuse_too_many(found: int, things: str) -> None:
    """Refuse more than a text may stand for.

    Raises:
      ValueError: Says how many `things` there are, and how many may be.
    """
    if found > MOST_NUMBERS:
        raise ValueError(
            f"these are {found:,} {things}. At most {MOST_NUMBERS:,} can be named: look for a digit too many."
        )
