"""One restore: from a folder to values that have no names yet, and the shardings of their arrays.

If a variable of the same name exists, an array gets the sharding of the array in it. Any other array that lay on
several processes gets its saved spec on a mesh with the same axes, or lies whole on all devices. All processes
must have the same plan, and no name changes before all values are read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.namespace import Saving
from nbdist.engine.saving import folder as folders
from nbdist.engine.saving.exchange import SharedTask, read_arrays, refuse_without_orbax
from nbdist.engine.saving.folder import SavedVariable, SaveFile
from nbdist.engine.saving.parts import SCALARS, SavedLeaf, SavedObjects, VariableParts
from nbdist.engine.saving.save import refuse_other_folders, saved_name
from nbdist.engine.values.incoming import HeldValue
from nbdist.errors import ArrayError, SpecError
from nbdist.notation import array_type_text, names_text

if TYPE_CHECKING:
    from jax.sharding import Mesh, NamedSharding


class Places:
    """Shardings for saved arrays that have none here: their names do not exist, or are not placed yet.

    Args:
      variables: The user's, by name.
    """

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._meshes = _meshes(variables)
        self._everywhere: NamedSharding | None = None

    def of(self, name: str, part: SavedLeaf) -> tuple[NamedSharding, str]:
        """Return the sharding for one array, and a text that describes it.

        Args:
          name: The name of its variable.
          part: An array that lay on several processes.

        Raises:
          SpecError: An axis of the mesh does not divide a dimension.
        """
        from jax.sharding import NamedSharding, PartitionSpec

        if part.spec is None:
            return self._replicated(), "replicated: it was saved without a PartitionSpec"
        axes = tuple(axis for axis, _ in part.axes)
        for where, mesh in self._meshes:
            if set(mesh.axis_names) == set(axes):
                _refuse_uneven(f"{name}{part.path}", part, mesh)
                sizes = ", ".join(f"{axis}={size}" for axis, size in mesh.shape.items())
                return NamedSharding(mesh, PartitionSpec(*part.spec)), f"on {where} ({sizes})"
        wanted = ", ".join(axes)
        return self._replicated(), f"replicated: there is no mesh with the axes {wanted}"

    def _replicated(self) -> NamedSharding:
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        if self._everywhere is None:
            mesh = Mesh(jax.devices(), ("devices",))
            self._everywhere = NamedSharding(mesh, PartitionSpec())
        return self._everywhere


def sharding_text(sharding: Any) -> str:
    """Return a text that is equal on two processes if their shardings mean the same."""
    import jax
    from jax.sharding import NamedSharding

    if jax.process_count() > 1 and sharding.is_fully_addressable:
        return f"own: {type(sharding).__name__}"
    if isinstance(sharding, NamedSharding):
        ids = [device.id for device in sharding.mesh.devices.flat]
        return f"{sharding.mesh.shape} {ids} {sharding.spec} {sharding.memory_kind}"
    return f"{sharding} {sorted(device.id for device in sharding.device_set)}"


def _meshes(variables: Mapping[str, Any]) -> list[tuple[str, Mesh]]:
    """Return the mesh that is set, then those of the namespace, larger ones first; each with its name."""
    import jax

    current = jax.sharding.get_mesh()
    found = [("the mesh that is set", current)] if _spans(current) else []
    named = [(f"mesh {name}", value) for name, value in variables.items() if _spans(value)]
    return found + sorted(named, key=lambda one: -one[1].devices.size)


def _spans(value: Any) -> bool:
    import jax
    from jax.sharding import Mesh

    if not isinstance(value, Mesh) or value.empty:
        return False
    spanned = {device.process_index for device in value.devices.flat}
    return len(spanned) == int(jax.process_count())


def _refuse_uneven(said: str, part: SavedLeaf, mesh: Mesh) -> None:
    assert part.spec is not None
    for dimension, entry in enumerate(part.spec):
        axes = () if entry is None else (entry,) if isinstance(entry, str) else entry
        size, count = part.shape[dimension], math.prod(mesh.shape[axis] for axis in axes)
        if size % count:
            named = " × ".join(f"{axis}={mesh.shape[axis]}" for axis in axes)
            fitting = ", ".join(str(n) for n in range(1, size + 1) if size % n == 0)
            raise SpecError(
                f"{said} ({array_type_text(part.dtype, part.shape)}): the mesh has {named}, which does not "
                f"divide dimension {dimension} of {size}. Needed is a mesh where that is one of {fitting}; or "
                "make an array of this shape under this name with a sharding that fits, and restore again. No "
                "variable was changed."
            )


_TYPES = {name: kind for kind, name in SCALARS.items()}


class RestoredValues(HeldValue):
    """Values that have been read on all processes, and have no names yet.

    Args:
      values: By name.
      objects: Puts arrays into models that are there.
    """

    def __init__(self, values: Mapping[str, Any], objects: SavedObjects) -> None:
        self._values = dict(values)
        self._objects = objects

    def give(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value for each name; models that are there get the arrays that were read.

        Args:
          variables: The user's, by name, as they were when the values were read.
        """
        return {
            name: self._objects.given_back(variables[name], value) if name in variables else value
            for name, value in self._values.items()
        }

    def close(self) -> None:
        """Drop the values."""
        self._values = {}


@dataclass(frozen=True, kw_only=True)
class Target:
    """The plan to make one variable.

    Attributes:
      variable: The variable as it was saved.
      tree: JAX's description of the value.
      shardings: The sharding of each part; None for a part that is no JAX array, or that JAX places by itself.
      how: The plan in words.
    """

    variable: SavedVariable
    tree: Any
    shardings: Sequence[Any]
    how: str


def restore(task: SharedTask) -> tuple[Saving, RestoredValues]:
    """Read variables; called on all processes at the same time.

    Raises:
      ArrayError: The folder has no whole save, or an existing value does not fit.
      SpecError: A mesh does not fit.
      OptionError: The processes mean different folders.
      SessionError: Orbax is not installed, or the restore took too long.
    """
    import jax

    exchange = task.exchange
    targets: list[Target] = []
    saves: list[SaveFile] = []

    def look() -> dict[str, Any]:
        refuse_without_orbax()
        folder = folders.folder_of(task.path)
        saves.append(folders.read(folder, task.host))
        digest = hashlib.sha256(repr(saves[0]).encode()).hexdigest()
        return {"host": task.host, "folder": str(folder), "digest": digest}

    said = exchange.all("save", look)
    refuse_other_folders(task.path, said)
    for process_id, one in enumerate(said):
        if one["digest"] != said[0]["digest"]:
            raise ArrayError(
                f"{said[0]['folder']!r} has another save on host {one['host']} (process {process_id}) than on "
                f"host {said[0]['host']} (process 0). All hosts need the same folder. No variable was changed."
            )

    def plan() -> list[Any]:
        targets.extend(_targets(saves[0], task.path, task.names, task.variables, task.objects))
        return [
            [t.variable.name, t.how, [s and sharding_text(s) for s in t.shardings]] for t in targets
        ]

    _refuse_differing(exchange.all("places", plan))
    asked = {
        str(target.variable.first + index): (part, sharding)
        for target in targets
        for index, (part, sharding) in enumerate(
            zip(target.variable.parts, target.shardings, strict=True)
        )
        if part.kind != "scalar"
    }
    arrays: dict[str, Any] = {}
    if asked:
        arrays = read_arrays(
            Path(said[0]["folder"]) / saves[0].arrays,
            {number: sharding for number, (_, sharding) in asked.items()},
            {number: jax.numpy.dtype(part.dtype) for number, (part, _) in asked.items()},
            exchange,
        )
    made: dict[str, Any] = {}
    exchange.all("read", lambda: made.update({t.variable.name: _value(t, arrays) for t in targets}))
    names_read = tuple(saved_name(t.variable.name, t.variable.parts, t.how) for t in targets)
    report = Saving(path=said[0]["folder"], names=names_read)
    return report, RestoredValues(made, task.objects)


def _targets(
    save: SaveFile,
    path: str,
    names: tuple[str, ...],
    variables: Mapping[str, Any],
    objects: SavedObjects,
) -> list[Target]:
    there = {variable.name: variable for variable in save.variables}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise ArrayError(
            f"{path!r} has no variable {unknown[0]!r}; it has {names_text(there)}. No variable was changed."
        )
    hiding = [] if names else [name for name in there if folders.is_builtin(name)]
    if hiding:
        raise ArrayError(
            f"{path!r} has a variable {hiding[0]!r}, which would hide what Python has under that name. To restore "
            "it all the same, give the names to restore. No variable was changed."
        )
    places = Places(variables)
    return [
        _as_it_is(there[name], variables[name], places, objects)
        if name in variables
        else _anew(there[name], places)
        for name in names or there
    ]


def _as_it_is(variable: SavedVariable, value: Any, places: Places, objects: SavedObjects) -> Target:
    try:
        mine = VariableParts(variable.name, value, objects, values=False)
    except ArrayError as error:
        raise ArrayError(f"{_unlike(variable.name)}: {error}") from error
    if [part.path for part in mine.parts] != [part.path for part in variable.parts]:
        raise ArrayError(
            f"{_unlike(variable.name)}: it has {len(mine.parts)} leaves, and {len(variable.parts)} were saved, "
            f"or they have other names. {_remedy(value, objects)} No variable was changed."
        )
    for part, saved in zip(mine.parts, variable.parts, strict=True):
        if _kind(part) != _kind(saved):
            raise ArrayError(
                f"{variable.name}{part.path} is {_kind(part)} here and was saved as {_kind(saved)}. Make it "
                f"alike, or delete {variable.name} with del. No variable was changed."
            )
    said = {"as it lay before": None}
    shardings = list(mine.shardings)
    for index, (part, saved) in enumerate(zip(mine.parts, variable.parts, strict=True)):
        # The user has not chosen a sharding for such an array yet, such as a new optimizer's state.
        if part.kind == "array" and shardings[index] is None and not saved.local:
            shardings[index], how = places.of(variable.name, saved)
            said[how] = None
    return Target(variable=variable, tree=mine.tree, shardings=shardings, how="; ".join(said))


def _remedy(value: Any, objects: SavedObjects) -> str:
    if objects.keeps_its_own(value):
        return (
            "Make it as it was when it was saved: built, compiled, and its optimizer built as well "
            "(model.optimizer.build(model.trainable_variables)), if it had been trained."
        )
    return "Delete it with del, or restore under a value of the same structure."


def _unlike(name: str) -> str:
    return f"{name} is not here as it was saved"


def _kind(part: SavedLeaf) -> str:
    if part.kind == "scalar":
        return "a number or text"
    described = array_type_text(part.dtype, part.shape)
    if part.kind == "numpy":
        return f"{'NumPy number' if part.single else 'NumPy array'} {described}"
    return f"PRNG keys of {part.key} {described}" if part.key else f"array {described}"


def _anew(variable: SavedVariable, places: Places) -> Target:
    import jax

    tree = jax.tree.structure(folders.skeleton_of(variable))
    shardings: list[Any] = []
    said: dict[str, None] = {}
    for part in variable.parts:
        sharding = None
        if part.kind == "array" and not part.local:
            sharding, how = places.of(variable.name, part)
            said[how] = None
        shardings.append(sharding)
    return Target(
        variable=variable, tree=tree, shardings=shardings, how="; ".join(said) or "on each process"
    )


def _refuse_differing(plans: Sequence[Sequence[Any]]) -> None:
    for process_id, plan in enumerate(plans):
        for mine, its in zip(plans[0], plan, strict=True):
            if mine != its:
                raise ArrayError(
                    f"{mine[0]} would not be restored alike: {mine[1]} on process 0, {its[1]} on process "
                    f"{process_id}. Its name, or the mesh, must be the same on all. No variable was changed."
                )


def _value(target: Target, arrays: Mapping[str, Any]) -> Any:
    import jax

    leaves = [
        _leaf(target.variable.name, part, sharding, arrays.get(str(target.variable.first + index)))
        for index, (part, sharding) in enumerate(
            zip(target.variable.parts, target.shardings, strict=True)
        )
    ]
    return jax.tree.unflatten(target.tree, leaves)


def _leaf(name: str, part: SavedLeaf, sharding: Any, value: Any) -> Any:
    import jax
    import numpy as np

    if part.kind == "scalar":
        return complex(*part.value) if part.dtype == "complex" else _TYPES[part.dtype](part.value)
    if part.kind == "array" and sharding is None:
        value = jax.numpy.asarray(value)
    if value.dtype.name != part.dtype or tuple(value.shape) != part.shape:
        raise ArrayError(
            f"{name}{part.path} was saved as {array_type_text(part.dtype, part.shape)} and came as "
            f"{array_type_text(value.dtype.name, value.shape)}. 64 bits need JAX_ENABLE_X64=1. "
            "No variable was changed."
        )
    if part.key:
        return jax.random.wrap_key_data(value, impl=part.key)
    if part.kind == "numpy":
        value = np.asarray(value)
        return value[()] if part.single else value
    return value
