"""What each program of `programs.py` exchanges, from theory: sizes follow from its shapes and its mesh alone.

A compiler is free in some of it. Where XLA for CPUs and for TPUs do it differently, each has a row of its own:

- TPUs multiply matrices of `float32` in `bfloat16` by default, and exchange these in it;
- CPUs have no reduce-scatter of what a loop adds up, and reduce all of it everywhere;
- what is gathered or reduced for one reason may be one collective or several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbdist.contract.program import Collective
from tests.golden.programs import BATCH, LAYERS, WIDTH
from tests.places import ROOT

F32, BF16 = 4, 2
WEIGHT = WIDTH * WIDTH
"""Numbers of a weight of one layer."""


@dataclass(frozen=True)
class Known:
    """A collective; `code`, or one of several, is in its line of `programs.py`; empty where XLA names no line.

    Of one that the compiler made of several, and says so (`both`), it may be the line of any of them.
    """

    kind: str
    axes: tuple[str, ...] | None
    bytes: int
    times: int | None
    direction: str
    code: str | tuple[str, ...]
    in_branch: bool = False


LOSS = Known("all-reduce", ("data",), F32, 1, "forward", "(hidden**2)")
PART = BATCH // 8 * WIDTH
"""Numbers of a batch on each of eight devices."""

TENSOR = [
    Known("all-reduce", ("model",), BATCH // 2 * WIDTH * F32, 1, "", f'inner @ block["{weight}"]')
    for weight in ("out", "down", "out", "down")
]
ROWS = BATCH // 2
"""Of a batch, on each of the devices of one `data`."""

SAME = {
    "accumulated": [Known("all-reduce", ("data",), WEIGHT * F32, 1, "", 'psum(total, "data")')],
    "alone": [],
    "batched": [],
    "convolved": [],
    "both_axes": [Known("all-reduce", ("data", "model"), PART * F32, 1, "", 'psum(batch, ("data"')],
    "branch": [Known("all-reduce", ("data",), PART * F32, 1, "", "psum(b,", in_branch=True)],
    "cannon": [
        Known("collective-permute", ("x",), ROWS * WIDTH // 4 * F32, 4, "", "ppermute(left,"),
        Known("collective-permute", ("y",), ROWS * WIDTH // 4 * F32, 4, "", "ppermute(right,"),
    ],
    "halo": [
        Known("collective-permute", ("data",), 1 * WIDTH * F32, 1, "", "ppermute(rows[-1:]"),
        Known("collective-permute", ("data",), 2 * WIDTH * F32, 1, "", "ppermute(rows[:2]"),
    ],
    "heads": [
        Known("all-to-all", ("seq",), BATCH // 4 * 8 * WIDTH // 2 * F32, 1, "", code)
        for code in ("all_to_all(values,", "all_to_all(made,")
    ],
    "halves": [Known("all-reduce", None, PART * F32, 1, "", "axis_index_groups=groups")],
    "nested": [Known("all-reduce", ("data",), PART * F32, 15, "", "psum(carried,")],
    "pipeline": [
        Known("collective-permute", ("stage",), BATCH // 2 * WIDTH * F32, 11, "", "ppermute(made,")
    ],
    "scattered": [
        Known("reduce-scatter", ("data",), BATCH * WIDTH // 2 * F32, 1, "", "psum_scatter(batch,"),
        Known(
            "all-gather", ("data",), BATCH * WIDTH // 2 * F32, 1, "", "all_gather(jnp.tanh(part)"
        ),
    ],
    "table": [Known("all-reduce", ("model",), ROWS * WIDTH * F32, 1, "", "psum(found,")],
    "tensor_parallel": TENSOR,
    "tensor_parallel_step": [
        Known(
            "all-reduce",
            ("model",),
            BATCH // 2 * WIDTH * F32,
            LAYERS,
            "forward",
            '@ weights["down"]',
        ),
        Known(
            "all-reduce",
            ("model",),
            BATCH // 2 * WIDTH * F32,
            LAYERS,
            "backward",
            '@ weights["up"]',
        ),
        Known("all-reduce", ("data",), 2 * WEIGHT * F32, LAYERS, "backward", '@ weights["down"]'),
        LOSS,
    ],
    "until": [Known("all-reduce", ("data",), F32, None, "", "psum(carried.sum()")],
    "vocabulary": [
        Known("all-reduce", ("model",), ROWS * F32, 1, "", "pmax(logits"),
        Known("all-reduce", ("model",), ROWS * F32, 1, "", "psum(total,"),
    ],
}
GRADIENTS = WEIGHT * F32 + F32
"""Of one weight, and the loss with it, which both compilers reduce in one go."""

LARGE = (4 * WIDTH) * (16 * WIDTH) // 2
"""Numbers of a weight of `overlapped` on the devices of one `model`."""

SCANNED = ("lax.scan(block,", "@ weights[")
"""JAX 0.10 names the line that uses a part of what a scan goes over, newer ones the scan."""

PARTED = [
    Known("all-gather", ("model",), ROWS * WIDTH * F32, 1, "", "all_gather(hidden,"),
    Known("reduce-scatter", ("model",), ROWS * WIDTH * F32, 1, "", "psum_scatter(made,"),
]
"""Of `sequence_parallel`."""

ACTIVATIONS = 8 * BATCH // 4 * 4 * WIDTH

CPU = SAME | {
    "data_parallel": [
        Known("all-reduce", ("data",), GRADIENTS, 1, "both", ("(hidden**2)", "batch @ weight"))
    ],
    "experts": [
        Known("all-to-all", ("expert",), 4 * PART * F32, 1, "", "all_to_all(tokens,"),
        Known("all-to-all", ("expert",), 4 * PART * F32, 1, "", "all_to_all(made,"),
    ],
    "fully_sharded": [
        Known("all-gather", ("data",), WEIGHT * F32, LAYERS, "forward", "lax.scan(layer,"),
        Known("all-reduce", ("data",), WEIGHT * F32, LAYERS, "backward", "hidden @ whole"),
        LOSS,
    ],
    "overlapped": [
        *(
            Known("all-gather", ("data",), LARGE * F32, LAYERS, direction, SCANNED)
            for direction in ("forward", "forward", "backward", "backward")
        ),
        Known("all-reduce", ("model",), ACTIVATIONS * F32, LAYERS, "forward", '@ weights["down"]'),
        Known("all-reduce", ("model",), ACTIVATIONS * F32, LAYERS, "backward", '@ weights["up"]'),
        Known("all-reduce", ("data",), 2 * LARGE * F32, LAYERS, "backward", '@ weights["down"]'),
        LOSS,
    ],
    "resharded": [
        Known("all-gather", ("model",), BATCH * WIDTH // 2 * F32, 1, "", "tanh(batch @ weight)"),
        Known("all-gather", ("data",), BATCH * WIDTH * F32, 1, "", "tanh(batch @ weight)"),
    ],
    "ring": [Known("collective-permute", ("seq",), PART * F32, 8, "", "ppermute(keys,")],
    "sequence_parallel": PARTED,
    "tree": [
        Known(
            "all-reduce",
            ("data",),
            4 * WEIGHT * F32 + F32,
            1,
            "both",
            ("(hidden**2)", "hidden @ weight"),
        ),
    ],
}
TPU = SAME | {
    "data_parallel": [Known("all-reduce", ("data",), GRADIENTS, 1, "backward", "batch @ weight")],
    "experts": [
        Known("all-to-all", ("expert",), 4 * PART * BF16, 1, "", "all_to_all(tokens,"),
        Known("all-to-all", ("expert",), 4 * PART * F32, 1, "", "all_to_all(made,"),
    ],
    "fully_sharded": [
        Known("all-gather", ("data",), WEIGHT * BF16, LAYERS, "forward", "lax.scan(layer,"),
        Known("reduce-scatter", ("data",), WEIGHT * F32, LAYERS, "backward", "hidden @ whole"),
        LOSS,
    ],
    "overlapped": [
        *(
            Known("all-gather", ("data",), LARGE * BF16, LAYERS, direction, "lax.scan(block,")
            for direction in ("forward", "forward", "backward", "backward")
        ),
        Known("all-reduce", ("model",), ACTIVATIONS * BF16, LAYERS, "forward", '@ weights["down"]'),
        Known("all-reduce", ("model",), ACTIVATIONS * BF16, LAYERS, "backward", '@ weights["up"]'),
        Known("reduce-scatter", ("data",), LARGE * BF16, LAYERS, "backward", '@ weights["down"]'),
        Known("reduce-scatter", ("data",), LARGE * BF16, LAYERS, "backward", '@ weights["up"]'),
        LOSS,
    ],
    "resharded": [
        Known("all-gather", ("data", "model"), BATCH * WIDTH * F32, 1, "", "tanh(batch @ weight)"),
    ],
    "ring": [Known("collective-permute", ("seq",), PART * BF16, 8, "", "ppermute(keys,")],
    "sequence_parallel": [replace(PARTED[0], bytes=ROWS * WIDTH * BF16), PARTED[1]],
    "tree": [
        Known("all-reduce", ("data",), 4 * WEIGHT * F32 + F32, 1, "backward", "hidden @ weight"),
    ],
}

TPUS = {
    "v5e:2x4": TPU,
    # It reduces everywhere and cuts out parts, where TPUs of other kinds scatter.
    "v5p:2x2x2": TPU
    | {
        "fully_sharded": CPU["fully_sharded"][1:] + TPU["fully_sharded"][:1],
        "scattered": [
            replace(SAME["scattered"][0], kind="all-reduce", code=""),
            SAME["scattered"][1],
        ],
        # It names the line whose result is reduced.
        "sequence_parallel": [
            TPU["sequence_parallel"][0],
            replace(PARTED[1], kind="all-reduce", code="tanh(whole @ up)"),
        ],
    },
    # The same for gradients, of which it reduces several in one go.
    "v6e:2x4": TPU
    | {
        "overlapped": [
            *(each for each in TPU["overlapped"] if each.kind != "reduce-scatter"),
            Known(
                "all-reduce", ("data",), 2 * LARGE * BF16, LAYERS, "backward", '@ weights["down"]'
            ),
        ]
    },
}
"""By the names of topologies."""

MATMULS = {
    "accumulated": LAYERS * 2 * 2 * PART * WIDTH,
    "sequence_parallel": 2 * 2 * ROWS * WIDTH * WIDTH,
    # 2 operations for each number of rows × inner × columns; a gradient has two products more for each,
    # but none for the batch itself.
    "data_parallel": 2 * 2 * PART * WIDTH,
    "batched": 2 * 2 * (BATCH // 8) * 16 * 16 * 32,
    # Of three places along an axis the first and the last row lack one.
    "convolved": 2 * (BATCH // 8) * (3 * 12 - 2) * (3 * 10 - 2) * 8 * 16,
    "fully_sharded": LAYERS * 3 * 2 * PART * WIDTH,
    "overlapped": LAYERS * 2 * 3 * 2 * (8 * BATCH // 4) * LARGE,
    "pipeline": 11 * 2 * BATCH // 2 * WEIGHT,
    "tensor_parallel": 2 * 4 * 2 * (BATCH // 2) * WIDTH * WIDTH,
    "tensor_parallel_step": LAYERS * 2 * 3 * 2 * (BATCH // 2) * WIDTH * WIDTH,
    "tree": (4 + 4 + 3) * 2 * PART * WIDTH,
    "nested": 0,
}


def as_known(each: Collective) -> Known:
    """What was read, with the code of its line."""
    code = code_of(each.file, each.line)
    return Known(each.kind, each.axes, each.bytes, each.times, each.direction, code, each.in_branch)


def code_of(file: str, line: int) -> str:
    """A line of a file, by its path from the root of the repository or a whole one; empty where there is none."""
    if not file:
        return ""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return lines[line - 1].strip()


def check(collectives: Sequence[Collective], known: Sequence[Known]) -> None:
    """Fails with both lists where they differ."""
    read = [as_known(each) for each in collectives]
    left = list(read)
    for each in known:
        match = next((other for other in left if _is(other, each)), None)
        assert match is not None, f"missing: {each}\nread: {read}"
        left.remove(match)
    assert left == [], f"not expected: {left}"


def _is(read: Known, known: Known) -> bool:
    same = ("kind", "axes", "bytes", "times", "direction", "in_branch")
    codes = (known.code,) if isinstance(known.code, str) else known.code
    named = any(code in str(read.code) if code else read.code == "" for code in codes)
    return named and all(getattr(read, n) == getattr(known, n) for n in same)
