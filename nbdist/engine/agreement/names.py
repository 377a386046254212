"""Values of the names that a cell reads, described on one process: types, global arrays, keys, code."""

from __future__ import annotations

import builtins
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbdist.contract.agreement import NameFacts, NamesFacts
from nbdist.engine.agreement.comparer import Comparer
from nbdist.engine.agreement.reads import Reads
from nbdist.engine.probe.code import code_digest
from nbdist.engine.probe.lent import Lent
from nbdist.engine.probe.library import Library
from nbdist.engine.probe.walk import Bounds, Walk

_MISSING = object()


class Names:
    """Describer of names, used again and again on the main thread; keeps no array alive."""

    def __init__(self, packages: frozenset[str]) -> None:
        self._packages = packages

    def describe(
        self,
        reads: Reads,
        namespace: dict[str, Any],
        comparers: Sequence[Comparer],
        libraries: Sequence[Library],
    ) -> NamesFacts:
        """Describe names and their arrays for the comparison.

        Args:
          reads: The names.
          namespace: The values by name.
          comparers: Comparers of the imported frameworks.
          libraries: Libraries of the same frameworks; those that build on others come first.
        """
        found: dict[str, Any] = {}
        names: dict[str, NameFacts] = {}
        for path in sorted(reads.certain | reads.possible):
            for name, value in steps(path, namespace):
                known, code = names.get(name), None
                certain = path in reads.certain or (known is not None and known.certain)
                if value is not _MISSING:
                    found[name] = value
                    code = code_digest(value)
                names[name] = NameFacts(type=_type_text(value), certain=certain, code=code)
        arrays = self._arrays(found, comparers, libraries)
        holders = {_root(path) for path in (*arrays.arrays, *arrays.local)}
        names = {
            name: replace(known, holds=_root(name) in holders) for name, known in names.items()
        }
        return replace(arrays, names=names)

    def _arrays(
        self,
        namespace: dict[str, Any],
        comparers: Sequence[Comparer],
        libraries: Sequence[Library],
    ) -> NamesFacts:
        """Return the facts of the arrays in a namespace, without the names."""
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
        every = [comparer.found() for comparer in comparers]
        return NamesFacts(
            names={},
            arrays={path: one for found in every for path, one in found.arrays.items()},
            meshes={name: one for found in every for name, one in found.meshes.items()},
            local={path: one for found in every for path, one in found.local.items()},
            keys={path: one for found in every for path, one in found.keys.items()},
            omitted=omitted,
        )


def steps(path: str, namespace: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return each step of a dotted path through modules, with its value; run no code of anybody."""
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
