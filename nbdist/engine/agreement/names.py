"""What the names that a cell reads stand for on this process: types, global arrays, keys, code."""

from __future__ import annotations

import builtins
import types
from collections.abc import Mapping
from typing import Any

from nbdist.engine.agreement.code import code_digest
from nbdist.engine.agreement.keys import Keys
from nbdist.engine.agreement.reads import Reads
from nbdist.engine.frameworks.jax.describe import Descriptions
from nbdist.engine.frameworks.jax.meshes import Meshes
from nbdist.engine.frameworks.jax.observe import Observer
from nbdist.engine.frameworks.keras.variables import Lent
from nbdist.engine.probe.walk import Bounds, Walk

_MISSING = object()


class Names:
    """Describes names again and again, on the main thread; keeps no array alive.

    Args:
      meshes: Where meshes are described.
    """

    def __init__(self, meshes: Meshes) -> None:
        self._descriptions = Descriptions(meshes)
        self._classes = Observer(0)

    def describe(self, reads: Reads, namespace: dict[str, Any]) -> dict[str, Any]:
        """What is to be compared.

        Returns:
          `names`: by dotted path, `type` (None: there is no such name), `certain` (read whatever happens), `code`
            (see `code_digest`), `holds` (whether arrays are in it). Of a path through modules each step is one.
          `arrays`: by path, what spans processes, as `nbdist.contract.snapshot.Array`; `meshes`: by id.
          `local`: by path, `[dtype, shape]` of what lies on this process alone, `[]` of what is deleted.
          `keys`: by path, the values of typed keys.
          `omitted`: how many arrays were too many.
        """
        found: dict[str, Any] = {}
        names: dict[str, dict[str, Any]] = {}
        for path in sorted(reads.certain | reads.possible):
            for name, value in steps(path, namespace):
                certain = path in reads.certain or names.get(name, {}).get("certain", False)
                names[name] = {"type": _type_text(value), "certain": certain, "code": None}
                if value is not _MISSING:
                    found[name] = value
                    names[name]["code"] = code_digest(value)
        arrays = self._arrays(found)
        holders = {_root(path) for kind in ("arrays", "local") for path in arrays[kind]}
        for name, entry in names.items():
            entry["holds"] = _root(name) in holders
        return {"names": names, **arrays}

    def _arrays(self, namespace: dict[str, Any]) -> dict[str, Any]:
        local: dict[str, Any] = {}
        keys = Keys()
        descriptions = self._descriptions
        descriptions.begin()

        def found(path: str, array: Any) -> bool:
            if type(array) is Lent:
                return False
            if array.is_deleted():
                local[path] = []
                return False
            keys.add(path, array)
            if not spans_processes(array):
                local[path] = [str(array.dtype), list(array.shape)]
                return True
            return descriptions.add(path, array)

        walk = Walk(
            found=found,
            mesh=descriptions.add_mesh,
            arrays=self._classes.array_classes(),
            meshes=self._classes.mesh_classes(),
            bounds=Bounds(),
        )
        omitted = walk.run(namespace)
        return {
            "arrays": {one["path"]: one for one in descriptions.arrays()},
            "meshes": {one["id"]: one for one in descriptions.meshes()},
            "local": local,
            "keys": keys.found,
            "omitted": omitted,
        }


def spans_processes(array: Any) -> bool:
    """Whether other processes hold parts of an array, so that all must describe it alike."""
    return not array.is_fully_addressable


def steps(path: str, namespace: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A dotted path as far as it leads through modules, and what each step stands for; runs nobody's code."""
    name, *rest = path.split(".")
    value = namespace.get(name, getattr(builtins, name, _MISSING))
    found = [(name, value)]
    for step in rest:
        if type(value) is not types.ModuleType or step not in vars(value):
            break
        name, value = f"{name}.{step}", vars(value)[step]
        found.append((name, value))
    return found


def _root(path: str) -> str:
    return path.replace("[", ".").partition(".")[0]


def _type_text(value: Any) -> str | None:
    if value is _MISSING:
        return None
    cls = type(value)
    module = type.__getattribute__(cls, "__module__")
    name = str(type.__getattribute__(cls, "__qualname__"))
    return name if module in ("builtins", "__main__") else f"{module}.{name}"
