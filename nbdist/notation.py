"""Meshes, specs, shapes and slices in the field's own notation.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

from nbdist.contract.snapshot import Array, Mesh, Slices


def slices_text(slices: Slices) -> str:
    """`[0:128, 0:256]`; `scalar` for an array without dimensions."""
    if not slices:
        return "scalar"
    return f"[{', '.join(f'{start}:{stop}' for start, stop in slices)}]"


def shape_text(shape: tuple[int, ...]) -> str:
    """`128 × 256`; `scalar` for an array without dimensions."""
    return " × ".join(map(str, shape)) if shape else "scalar"


def mesh_axes_text(mesh: Mesh) -> str:
    """`data=4 × model=2`."""
    return " × ".join(f"{axis.name}={axis.size}" for axis in mesh.axes)


def spec_text(array: Array) -> str:
    """`P('data', None)` as JAX prints it; for other shardings a few words."""
    sharding = array.sharding
    if sharding.kind == "named":
        unreduced = [f"unreduced={{{', '.join(map(repr, sharding.unreduced))}}}"]
        entries = [*map(_entry_text, sharding.spec), *(unreduced if sharding.unreduced else [])]
        return f"P({', '.join(entries)})"
    return {"single": "one device", "per_process": "each process its own", "indexed": "by index"}[
        sharding.kind
    ]


def entries_text(spec: tuple[tuple[str, ...], ...]) -> str:
    """`P(None, 'model')` for the spec of an array or variable."""
    return f"P({', '.join(map(_entry_text, spec))})"


def axes_text(axes: tuple[str | None, ...]) -> str:
    """`(None, 'model')`: the axes a rule of a layout map gives, as Keras writes them."""
    return repr(axes)


def _entry_text(axes: tuple[str, ...]) -> str:
    if not axes:
        return "None"
    return repr(axes[0]) if len(axes) == 1 else f"({', '.join(map(repr, axes))})"
