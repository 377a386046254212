"""Plans of what each device of a mesh would hold of a value, from its shapes and specs alone.

`make_plan` takes a value, specs, a topology and a mesh, and returns an `ArrayPlan`, the result of `nbdist.plan`.
Specs are a tree of specs, rules, a function of the path, or a map of layouts; `layout_of` finds one for each
array. The value may be of any framework, or of none: each imported framework is asked about it. Nothing is
computed.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbdist.contract.snapshot import Array, Mesh
from nbdist.engine.frameworks import each
from nbdist.engine.frameworks.interfaces import (
    ArrayShape,
    AskedLayout,
    AskedSpec,
    array_bytes,
    entry,
)
from nbdist.errors import ArrayError, OptionError
from nbdist.rehearsal.array_plan import ArrayPlan
from nbdist.rehearsal.mesh import axes_over, check_devices, read_axes, with_rest
from nbdist.rehearsal.planned import planned_arrays
from nbdist.rehearsal.topology import Topology, read_topology
from nbdist.rehearsal.torus import place_mesh
from nbdist.spelling import option
from nbdist.view.tree import steps

MOST_SHOWN = 60
"""The most characters shown of a value that is no spec."""

TAKEN = (
    "a tree of PartitionSpec or NamedSharding, a list of (regular expression, spec), a function of the path, or a "
    "Keras LayoutMap or distribution"
)

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def read_where(
    topology: str | Topology | None, *, slices: int = 1, devices: int | None = None
) -> Topology | int | None:
    """Return the topology, or the number of devices, of a plan; None if only its mesh says how many.

    Args:
      topology: As for `nbdist.plan`, as are all arguments.
      slices: The same.
      devices: The same.

    Raises:
      OptionError: Both are given, or there is no such topology.
    """
    if topology is not None and devices is not None:
        raise OptionError(
            f"{option('topology')} and {option('devices')} both say how many devices there are: give one."
        )
    if isinstance(topology, Topology):
        return topology
    if topology is not None:
        return read_topology(topology, slices=slices)
    if slices != 1:
        raise OptionError(
            f"{option('slices')} {slices} needs {option('topology')}: that of one slice."
        )
    if devices is not None and devices < 1:
        raise OptionError(f"{option('devices')} {devices}: allowed are 1 or more.")
    return devices


def make_plan(
    value: Any,
    specs: Any = None,
    *,
    where: Topology | int | None = None,
    mesh: Any = None,
    memory: str | int | None = None,
    name: str = "value",
    source: str = "",
    shards: tuple[Sequence[Array], Mapping[str, Mesh]] | None = None,
) -> ArrayPlan:
    """Return a plan. For the arguments that `nbdist.plan` also has, see there.

    Args:
      value: The value; None for one on the processes of a session.
      specs: As for `nbdist.plan`, like `mesh`, `memory` and `name`.
      where: As `read_where` returns it.
      mesh: The axes of the mesh.
      memory: The memory of one device.
      name: The name of the value.
      source: Where the value was found, in words.
      shards: The arrays of a value on the processes of a session, and their meshes by id.

    Raises:
      OptionError: The specs or the mesh cannot be read, or do not fit each other or the devices.
      ArrayError: The value has no arrays.
    """
    shapes = arrays_of(value, name) if shards is None else reported(*shards, name)
    layout = layout_of(specs, shapes, value)
    if mesh is None and layout.axes is None:
        raise OptionError(
            f"{option('mesh')} is missing: neither the specs nor the arrays name a mesh. Write "
            f"{option('mesh', 'data=16,model=16')}."
        )
    asked = mesh if mesh is not None else layout.axes
    pod = where if isinstance(where, Topology) else None
    axes = axes_over(where, asked) if isinstance(where, Topology) else _axes_of(asked, where)
    total = math.prod(axes.values())
    made_for = layout.axes if layout.axes is not None and dict(layout.axes) != axes else None
    return ArrayPlan(
        name=name,
        source=source,
        topology=pod,
        devices=total,
        axes=axes,
        place=place_mesh(pod, axes) if pod is not None else None,
        memory_bytes=_memory(memory, pod.device_memory_bytes if pod is not None else None),
        arrays=planned_arrays(shapes, layout.specs, axes, root=name, devices=total),
        unmatched=tuple(layout.unmatched),
        noun=layout.noun,
        made_for=made_for,
    )


def _axes_of(asked: Any, devices: int | None) -> dict[str, int]:
    """Return the axes of a mesh over this number of devices; None: over as many as the mesh has."""
    axes = with_rest(read_axes(asked), devices)
    if devices is not None:
        check_devices(axes, devices, "the plan")
    return axes


def _memory(given: str | int | None, known: int | None) -> int | None:
    """Return the memory of one device in bytes; `80GB` is read as nbdist prints it, in powers of 1024."""
    if given is None:
        return known
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    found = _MEMORY.fullmatch(str(given).strip())
    if found is None or float(found[1]) == 0:
        raise OptionError(
            f"{option('memory')}: cannot read {given!r}. Write the memory of one device, such as 80GB."
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])


def layout_of(specs: Any, arrays: Sequence[ArrayShape], value: Any = None) -> AskedLayout:
    """Return one spec for each array; without any specs, those that the arrays carry themselves.

    Args:
      specs: See `nbdist.plan`.
      arrays: The arrays of the value.
      value: The value; None if it is in another process.

    Raises:
      OptionError: nbdist does not know specs of this form.
    """
    if specs is None:
        own = [array.own for array in arrays]
        axes = next((one.axes for one in own if one is not None and one.axes), None)
        return AskedLayout(specs=own, unmatched=(), axes=axes)
    for plans in each(lambda one: one.plans):
        if (found := plans.layout(specs, arrays, value)) is not None:
            return found
    if callable(specs):
        return AskedLayout(specs=[_asked(one) for one in _called(specs, arrays)], unmatched=())
    if (rules := _rules(specs)) is not None:
        return _ruled(rules, arrays)
    raise OptionError(
        f"{option('specs')}: {_shown(specs)} is not readable as specs. Allowed: {TAKEN}."
    )


def _called(function: Callable[..., Any], arrays: Sequence[ArrayShape]) -> list[Any]:
    """Return the results of a function of the path or, if it takes two arguments, of path and shape."""
    if _takes_shape(function):
        return [function(array.name, array.shape) for array in arrays]
    return [function(array.name) for array in arrays]


def _takes_shape(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in positional and one.default is one.empty]
    return len(needed) > 1


def _rules(specs: Any) -> list[tuple[re.Pattern[str], Any]] | None:
    """Return rules from a list of pairs; None for anything else.

    Raises:
      OptionError: A pattern is no regular expression.
    """
    if not isinstance(specs, list | tuple):
        return None
    rules = []
    for pair in specs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return None
        pattern, spec = pair
        if not isinstance(pattern, str | re.Pattern):
            return None
        try:
            rules.append((re.compile(pattern), spec))
        except re.error as error:
            raise OptionError(
                f"{option('specs')}: {pattern!r} is no regular expression: {error}."
            ) from None
    return rules


def _ruled(
    rules: Sequence[tuple[re.Pattern[str], Any]], arrays: Sequence[ArrayShape]
) -> AskedLayout:
    """Return, for each array, the spec of the first rule whose pattern is found in its path."""
    asked = [_asked(spec, pattern.pattern) for pattern, spec in rules]
    used = [
        next((n for n, (pattern, _) in enumerate(rules) if pattern.search(array.name)), None)
        for array in arrays
    ]
    return AskedLayout(
        specs=[None if n is None else asked[n] for n in used],
        unmatched=[pattern.pattern for n, (pattern, _) in enumerate(rules) if n not in used],
    )


def _asked(value: Any, rule: str | None = None) -> AskedSpec | None:
    if value is None:
        return None if rule is None else AskedSpec(entries=(), rule=rule)
    for plans in each(lambda one: one.plans):
        if (found := plans.spec(value)) is not None:
            return replace(found, rule=rule)
    entries = [entry(part) for part in value] if isinstance(value, tuple | list) else [None]
    if None in entries:
        raise OptionError(
            f"{option('specs')}: {_shown(value)} is no spec. Write PartitionSpec('data', None) or ('data', None)."
        )
    return AskedSpec(entries=tuple(one or () for one in entries), rule=rule)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def arrays_of(value: Any, name: str) -> list[ArrayShape]:
    """Return the arrays of a value, in its order; nothing is computed.

    Args:
      value: An array, a pytree, shapes from `jax.eval_shape`, a model.
      name: The value's name, for the error.

    Raises:
      ArrayError: The value has no arrays.
    """
    for plans in each(lambda one: one.plans):
        found = plans.shapes(value)
        if found:
            return list(found)
    plain = list(_plain(value, "", ()))
    if not plain:
        raise ArrayError(
            f"{name} has no arrays to plan. Allowed: an array, a pytree, what jax.eval_shape gives, a model of "
            "Flax NNX or Keras."
        )
    return plain


def reported(arrays: Sequence[Array], meshes: Mapping[str, Mesh], root: str) -> list[ArrayShape]:
    """Return arrays that lie on the processes of a session, with the specs they have there."""
    return [
        ArrayShape(
            path=array.path.removeprefix(root),
            name="/".join(_step_name(step) for step in steps(array.path.removeprefix(root))),
            shape=array.shape,
            dtype=array.dtype,
            nbytes=array.nbytes,
            own=_own(array, meshes),
        )
        for array in arrays
    ]


def _own(array: Array, meshes: Mapping[str, Mesh]) -> AskedSpec | None:
    if array.sharding.kind != "named":
        return None
    axes = {axis.name: axis.size for axis in meshes[array.sharding.mesh].axes}
    return AskedSpec(entries=array.sharding.spec, axes=axes)


def _step_name(step: str) -> str:
    """Return `dense` for `['dense']`, `kernel` for `.kernel`, `0` for `[0]`."""
    return step.strip(".[]").strip("'\"")


def _plain(value: Any, path: str, names: tuple[str, ...]) -> Iterator[ArrayShape]:
    """Yield the arrays in dicts, lists and tuples; used if no framework has been imported."""
    shape = getattr(value, "shape", None)
    dtype: Any = getattr(value, "dtype", None)
    if isinstance(shape, tuple) and hasattr(dtype, "itemsize"):
        yield ArrayShape(
            path=path,
            name="/".join(names),
            shape=shape,
            dtype=str(dtype),
            nbytes=array_bytes(shape, dtype.itemsize),
        )
    elif isinstance(value, Mapping):
        for key in value:
            yield from _plain(value[key], f"{path}[{key!r}]", (*names, str(key)))
    elif isinstance(value, list | tuple):
        fields = getattr(value, "_fields", None)
        for number, part in enumerate(value):
            step = f".{fields[number]}" if fields else f"[{number}]"
            yield from _plain(
                part, path + step, (*names, fields[number] if fields else str(number))
            )
