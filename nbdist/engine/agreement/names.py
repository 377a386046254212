"""What the names that a cell reads stand for on this process: types, global arrays, keys, code."""

from __future__ import annotations

import builtins
import types
from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.engine.agreement.code import code_digest
from nbdist.engine.agreement.comparer import Comparer
from nbdist.engine.agreement.reads import Reads
from nbdist.engine.probe.lent import Lent
from nbdist.engine.probe.library import Library
from nbdist.engine.probe.walk import Bounds, Walk

_MISSING = object()


class Names:
    """Describes names again and again, on the main thread; keeps no array alive.

    Args:
      packages: Of all frameworks.
    """

    def __init__(self, packages: frozenset[str]) -> None:
        self._packages = packages

    def describe(
        self,
        reads: Reads,
        namespace: dict[str, Any],
        comparers: Sequence[Comparer],
        libraries: Sequence[Library],
    ) -> dict[str, Any]:
        """What is to be compared.

        Args:
          reads: The names.
          namespace: What they stand for.
          comparers: Of the frameworks that have been imported.
          libraries: Of the same, those that build on others first.

        Returns:
          `names`: by dotted path, `type` (None: there is no such name), `certain` (read whatever happens), `code`
            (see `code_digest`), `holds` (whether arrays are in it). Of a path through modules each step is one.
          What `Comparer.found` gives, of all together.
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
        arrays = self._arrays(found, comparers, libraries)
        holders = {_root(path) for kind in ("arrays", "local") for path in arrays[kind]}
        for name, entry in names.items():
            entry["holds"] = _root(name) in holders
        return {"names": names, **arrays}

    def _arrays(
        self,
        namespace: dict[str, Any],
        comparers: Sequence[Comparer],
        libraries: Sequence[Library],
    ) -> dict[str, Any]:
        for comparer in comparers:
            comparer.begin()
        takers = [(comparer, comparer.array_classes()) for comparer in comparers]

        def found(path: str, array: Any) -> bool:
            if type(array) is Lent:
                return False
            bases = type(array).__mro__
            taker = next((one for one, classes in takers if any(c in bases for c in classes)), None)
            return taker is not None and taker.add(path, array)

        def mesh(value: Any) -> None:
            for comparer in comparers:
                if isinstance(value, comparer.mesh_classes()):
                    comparer.add_mesh(value)

        walk = Walk(
            found=found,
            mesh=mesh,
            arrays=tuple(one for _, classes in takers for one in classes),
            meshes=tuple(one for comparer in comparers for one in comparer.mesh_classes()),
            packages=self._packages,
            libraries=libraries,
            bounds=Bounds(),
        )
        omitted = walk.run(namespace)
        all_found = Comparer().found()
        for comparer in comparers:
            for kind, facts in comparer.found().items():
                all_found[kind] |= facts
        return {**all_found, "omitted": omitted}


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
