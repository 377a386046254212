"""Arrays of a value by their shapes, and the specs that a person asks for them.

Specs are a tree of specs, rules, a function of the path, or a map of layouts; `layout_of` finds one for each
array. The value may be of any framework, or of none: each one that has been imported is asked, and nothing is
computed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nbdist.contract.snapshot import Array, Mesh
from nbdist.engine.frameworks import imported
from nbdist.engine.frameworks.interfaces import (
    ArrayShape,
    AskedLayout,
    AskedSpec,
    array_bytes,
    entry,
)
from nbdist.errors import ArrayError, OptionError
from nbdist.spelling import option
from nbdist.view.branches import steps

MOST_SHOWN = 60
"""The most characters shown of a value that is no spec."""

TAKEN = (
    "a tree of PartitionSpec or NamedSharding, a list of (regular expression, spec), a function of the path, or a "
    "Keras LayoutMap or distribution"
)


def layout_of(specs: Any, arrays: Sequence[ArrayShape], value: Any = None) -> AskedLayout:
    """Return one spec for each array; without any specs, those that the arrays carry themselves.

    Args:
      specs: See `nbdist.plan`.
      arrays: The arrays of the value.
      value: The value; None where it is in another process.

    Raises:
      OptionError: nbdist does not know specs of this form.
    """
    if specs is None:
        own = [array.own for array in arrays]
        axes = next((one.axes for one in own if one is not None and one.axes), None)
        return AskedLayout(specs=own, unmatched=(), axes=axes)
    for framework in imported():
        if (found := framework.layout(specs, arrays, value)) is not None:
            return found
    if callable(specs):
        return AskedLayout(specs=[_asked(one) for one in _called(specs, arrays)], unmatched=())
    if (rules := _rules(specs)) is not None:
        return _ruled(rules, arrays)
    raise OptionError(
        f"{option('specs')}: {_shown(specs)} is not readable as specs. Allowed: {TAKEN}."
    )


def _called(function: Callable[..., Any], arrays: Sequence[ArrayShape]) -> list[Any]:
    """Return the results of a function of the path, or of the path and the shape where it takes two arguments."""
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
      OptionError: A pattern that is no regular expression.
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
    """Return for each array the spec of the first rule whose pattern is found in its path."""
    asked = [(pattern.pattern, _asked(spec, rule=pattern.pattern)) for pattern, spec in rules]
    used: set[int] = set()
    found: list[AskedSpec | None] = []
    for array in arrays:
        number = next((n for n, (one, _) in enumerate(rules) if one.search(array.name)), None)
        found.append(asked[number][1] if number is not None else None)
        used |= {number} if number is not None else set()
    unmatched = [pattern for number, (pattern, _) in enumerate(asked) if number not in used]
    return AskedLayout(specs=found, unmatched=unmatched)


def _asked(value: Any, *, rule: str | None = None) -> AskedSpec | None:
    if value is None and rule is None:
        return None
    if value is None:
        return AskedSpec(entries=(), rule=rule)
    for framework in imported():
        if (found := framework.spec(value)) is not None:
            return AskedSpec(
                entries=found.entries, axes=found.axes, rule=rule, problem=found.problem
            )
    entries = [entry(part) for part in value] if isinstance(value, tuple | list) else [None]
    if any(one is None for one in entries):
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
    for framework in imported():
        found = framework.shapes(value)
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
    """Yield the arrays in dicts, lists and tuples, where no framework has been imported."""
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
