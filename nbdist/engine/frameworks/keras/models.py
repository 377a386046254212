"""Keras models as reports have them: rule, layout, spec and bytes of each variable, from metadata alone.

A rule is a pattern in the layout map of the distribution that is set. Specs and bytes come from descriptions of
the arrays that the variables hold, which the back end's observer makes; no device memory is read.
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbdist import pieces
from nbdist.contract.page import LARGE_BYTES
from nbdist.contract.snapshot import (
    Array,
    DeviceBytes,
    DeviceKey,
    Indexed,
    Mesh,
    Model,
    NamedSharding,
    SingleDevice,
    Variable,
)
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.distribution import axes_of, rules_of
from nbdist.engine.frameworks.keras.expressions import layer_paths
from nbdist.engine.frameworks.keras.variables import (
    VariablePlaces,
    is_trainable,
    lent_values,
    path_of,
    raw_value,
)
from nbdist.engine.probe.observer import Describe


def piece_bytes(array: Array, meshes: Mapping[str, Mesh]) -> int:
    """Return the bytes that the fullest of an array's devices holds.

    Args:
      array: The description of the array in a report.
      meshes: The meshes by id.
    """
    sharding = array.sharding
    elements = math.prod(array.shape)
    if isinstance(sharding, Indexed):
        largest = max((pieces.elements(one.slices) for one in sharding.pieces), default=elements)
        return largest * array.nbytes // max(elements, 1)
    mesh = meshes.get(sharding.mesh) if isinstance(sharding, NamedSharding) else None
    if mesh is None or not isinstance(sharding, NamedSharding):
        return array.nbytes
    sizes = {axis.name: axis.size for axis in mesh.axes}
    piece = 1
    for size, axes in zip(array.shape, sharding.spec, strict=True):
        piece *= pieces.part_length(size, math.prod(sizes.get(axis, 1) for axis in axes))
    return piece * array.nbytes // max(elements, 1)


def holders(array: Array, meshes: Mapping[str, Mesh]) -> tuple[DeviceKey, ...]:
    """Return the keys of the devices that hold some of an array; no key if the devices are not known."""
    sharding = array.sharding
    if isinstance(sharding, SingleDevice):
        return (sharding.device,)
    if isinstance(sharding, Indexed):
        return tuple(device for piece in sharding.pieces for device in piece.devices)
    if not isinstance(sharding, NamedSharding):
        return sharding.devices
    mesh = meshes.get(sharding.mesh)
    return mesh.devices if mesh is not None else ()


def is_whole_everywhere(array: Array, meshes: Mapping[str, Mesh]) -> bool:
    """Return whether each of two or more devices of a mesh holds all of an array."""
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding) or any(sharding.spec) or sharding.unreduced:
        return False
    return len(holders(array, meshes)) > 1


def totals(arrays: Iterable[Array], meshes: Mapping[str, Mesh]) -> tuple[DeviceBytes, ...]:
    """Return how many bytes of these arrays each device holds, the fullest first."""
    # Summed by set of devices rather than device by device: a mesh may have thousands.
    by_place: dict[tuple[DeviceKey, ...], int] = {}
    for array in arrays:
        place = holders(array, meshes)
        by_place[place] = by_place.get(place, 0) + piece_bytes(array, meshes)
    held: dict[DeviceKey, int] = {}
    for place, nbytes in by_place.items():
        for device in place:
            held[device] = held.get(device, 0) + nbytes
    groups: dict[int, list[DeviceKey]] = {}
    for device, nbytes in held.items():
        groups.setdefault(nbytes, []).append(device)
    return tuple(
        DeviceBytes(devices=tuple(devices), nbytes=nbytes)
        for nbytes, devices in sorted(groups.items(), reverse=True)
    )


MOST_MODELS = 8
"""The most models in a report."""

MOST_VARIABLES = 1000
"""The most variables of one model in a report; the rest is only counted."""


class LayoutRules:
    """The rules of the distribution that is set.

    Args:
      distribution: A `keras.distribution.Distribution`; None: no rule matches.
      before: The rules of the previous look, which may have matched the same paths.
    """

    def __init__(self, distribution: Any | None, before: LayoutRules | None = None) -> None:
        found = rules_of(distribution) if distribution is not None else []
        self.patterns = tuple(pattern for pattern, _ in found)
        self.axes = {pattern: axes_of(layout) for pattern, layout in found}
        self._by_layout = {id(layout): pattern for pattern, layout in found}
        # Matches stay true while the patterns are the same.
        same = before is not None and before.patterns == self.patterns
        self._by_path: dict[str, str | None] = before._by_path if before and same else {}

    def of(self, path: str, layout: Any) -> str | None:
        """Return the rule of a variable; None where no rule matched.

        A layout map gives its own layout objects to variables, and an optimizer's slot takes the layout of its
        variable, so the layout object identifies the rule. A variable made before this distribution was set is
        matched by its path.
        """
        pattern = self._by_layout.get(id(layout)) if layout is not None else None
        return pattern if pattern is not None else self.matching(path)

    def matching(self, path: str) -> str | None:
        """Return the first rule that equals a path or matches all of it, as `LayoutMap` does; None without one."""
        if path not in self._by_path:
            self._by_path[path] = next(
                (one for one in self.patterns if one == path or matches(one, path)), None
            )
        return self._by_path[path]


def matches(pattern: str, path: str) -> bool:
    """Return whether a rule's pattern matches the whole of a path; False if it is no regular expression."""
    try:
        return re.fullmatch(pattern, path) is not None
    except re.error:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """The description of a variable, as far as no mesh is needed, and the facts that it was made from.

    `described` has placeholders for what the meshes tell: `device_bytes` of the whole variable, `missed` False.
    """

    variable: weakref.ref[Any]
    facts: tuple[Any, ...]
    array: Array
    described: Variable


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The last description of a model, and the facts that it was made from."""

    model: weakref.ref[Any]
    about: tuple[Any, ...]
    said: list[_Said]
    described: Model


class KerasModels:
    """The descriptions of models for the `models` section of each report; keeps no model alive.

    A description that has not changed is the same object in the next look, so that sections are cheap to compare.

    Args:
      places: Finds the variables of models.
    """

    def __init__(self, places: VariablePlaces) -> None:
        self._places = places
        self._known: dict[int, _Known] = {}
        self._said: dict[int, _Said] = {}
        self._before: dict[int, _Said] = {}
        self._rules = LayoutRules(None)

    def describe(
        self,
        models: Iterable[tuple[str, Any]],
        distribution: Any | None,
        describe: Describe,
        meshes: Callable[[], Mapping[str, Mesh]],
    ) -> tuple[Model, ...]:
        """Return models as reports have them; models without variables are left out.

        Args:
          models: Each model, with the expression that reaches it.
          distribution: The distribution that is set on the main thread, if any.
          describe: Describes the array that a variable holds.
          meshes: Returns the meshes of the arrays described so far, by id.
        """
        self._rules = LayoutRules(distribution, self._rules)
        known, self._known = self._known, {}
        self._before, self._said = self._said, {}
        found = []
        for path, model in models:
            before = known.get(id(model))
            said = [one for one in self._variables(path, model, describe) if one is not None]
            if said:
                found.append(self._model(path, model, said, before, meshes))
        return tuple(found)

    def _model(
        self,
        path: str,
        model: Any,
        said: list[_Said],
        known: _Known | None,
        meshes: Callable[[], Mapping[str, Mesh]],
    ) -> Model:
        about = (path, self._rules.patterns)
        if (
            known is None
            or known.model() is not model
            or (known.about, known.said) != (about, said)
        ):
            now = meshes()
            described = Model(
                path=path,
                kind=type(model).__name__,
                variables=tuple(self._placed(one, now) for one in said[:MOST_VARIABLES]),
                variables_omitted=max(len(said) - MOST_VARIABLES, 0),
                unmatched=self._unmatched(model, said),
                totals=totals([one.array for one in said], now),
            )
            known = _Known(weakref.ref(model), about, said, described)
        self._known[id(model)] = known
        return known.described

    def _placed(self, said: _Said, meshes: Mapping[str, Mesh]) -> Variable:
        """Return a variable's description with the facts that the meshes tell: `device_bytes` and `missed`."""
        return replace(
            said.described,
            device_bytes=piece_bytes(said.array, meshes),
            missed=self._is_missed(said, meshes),
        )

    def _is_missed(self, said: _Said, meshes: Mapping[str, Mesh]) -> bool:
        if not self._rules.patterns or said.described.rule is not None:
            return False
        large = said.array.nbytes >= LARGE_BYTES
        return large and is_whole_everywhere(said.array, meshes)

    def _unmatched(self, model: Any, said: list[_Said]) -> tuple[str, ...]:
        used = {one.described.rule for one in said}
        rest = [pattern for pattern in self._rules.patterns if pattern not in used]
        if not rest:
            return ()
        # Rules also apply to the outputs of layers, under the path of the layer and "/output".
        outputs = [f"{path}/output" for path in layer_paths(model)]
        return tuple(one for one in rest if not any(matches(one, path) for path in outputs))

    def _variables(self, path: str, model: Any, describe: Describe) -> Iterator[_Said | None]:
        lent = lent_values(model)
        trains = private.TRAINABLE.of(model) is not False
        for place, variable in self._places.of(model):
            value = raw_value(variable)
            if value is None:
                value = lent.get(id(variable))
            array = describe(path + place.suffix if place.suffix is not None else None, value)
            group = "non-trainable"
            if place.of_optimizer:
                group = "optimizer"
            elif trains and is_trainable(variable):
                group = "trainable"
            yield self._variable(variable, array, group, place.suffix is not None)

    def _variable(
        self, variable: Any, array: Array | None, group: str, listed: bool
    ) -> _Said | None:
        """Return what is known of one variable; None while nothing is known of its value."""
        before = self._before.get(id(variable))
        if before is not None and before.variable() is not variable:
            before = None
        if array is None and before is not None:
            array = before.array  # a running `fit` has the value; its sharding has not changed
        if array is None:
            return None
        path, layout = path_of(variable), private.LAYOUT.of(variable)
        rule = self._rules.of(path, layout)
        axes = self._rules.axes[rule] if rule is not None else axes_of(layout)
        if rule is None and axes is not None and not any(axes):
            axes = None  # Keras gives this layout to variables that no rule matched
        facts = (path, group, listed, rule, axes, bool(self._rules.patterns))
        if before is None or before.facts != facts or before.array is not array:
            before = _Said(weakref.ref(variable), facts, array, _described(array, facts))
        self._said[id(variable)] = before
        return before


def _described(array: Array, facts: tuple[Any, ...]) -> Variable:
    path, group, listed, rule, axes, _ = facts
    sharding = array.sharding
    return Variable(
        path=path,
        array=(array.path or None) if listed else None,
        group=group,
        shape=array.shape,
        dtype=array.dtype,
        nbytes=array.nbytes,
        rule=rule,
        axes=axes,
        spec=sharding.spec if isinstance(sharding, NamedSharding) else None,
        device_bytes=array.nbytes,
        missed=False,
    )
