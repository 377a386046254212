"""The user's names in a namespace: which names these are, samples of their values, and which ones a cell uses.

`users` tells them from the names of Python, IPython and ipyparallel. `digests` gives samples of their values, so
that processes can be compared. `used` finds the names that a cell may read, also through functions that earlier
cells have defined.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from nbdist.engine.probe.samples import PLAIN, Sample, Sampler, SeenArray, gone, is_key
from nbdist.engine.probe.walk import IPYTHON_NAMES
from nbdist.engine.values.arrays import (
    OfferArray,
    OfferedArray,
    Parts,
    array_of,
    digest,
    is_numpy_array,
)
from nbdist.pieces import elements

_HISTORY = re.compile(
    r"_+|_i+|_i?\d+|_[iod]h|_exit_code|__\w+__|_[0-9a-f]{8}_\w+_(f|args|kwargs|result)"
)
"""Pattern of names that are not the user's: IPython sets them for cells, Python for a module, ipyparallel for a
call."""


def users(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's names with their values, in the order in which they were first set.

    Args:
      namespace: All names that cells see.
      hidden: Names that IPython has set itself, as `%who` knows them.
    """
    missing = object()
    return {
        name: value
        for name, value in namespace.items()
        if name not in IPYTHON_NAMES
        and not _HISTORY.fullmatch(name)
        and hidden.get(name, missing) is not value
    }


_NEVER_ARRAYS = (*PLAIN, list, tuple, dict, set)


def digests(
    names: Mapping[str, Any], *, offer_array: OfferArray, frameworks: Sequence[Parts]
) -> dict[str, Sample]:
    """Return a sample of each value, as in `nbdist.engine.probe.samples`, that covers the values of arrays.

    For an array divided over several processes, the sample covers its description only.

    Args:
      names: The values by name.
      offer_array: `offer_array` of the session's framework.
      frameworks: All imported frameworks; those that build on others come first.
    """

    def seen(value: Any) -> SeenArray | None:
        if type(value) in _NEVER_ARRAYS:
            return None
        model = next((d for f in frameworks if (d := f.model_digest(value, "", offer_array))), None)
        if model is not None:
            return SeenArray(model, whole=True, own=False)
        array = array_of(frameworks, value)
        if is_numpy_array(array):
            return None
        if getattr(array, "is_deleted", bool)():
            return gone(array)
        offered = offer_array(array, "")
        return None if offered is None else _seen(array, offered)

    return {name: Sampler(seen, passing=False).of(value) for name, value in names.items()}


def _seen(array: Any, offered: OfferedArray) -> SeenArray:
    kind = f"array {offered.dtype} {offered.shape} {offered.sharding}"
    alone = offered.sharding is None
    if alone or _is_whole_everywhere(array):
        # Replicated copies are meant to be equal, but may differ if each process has computed its own.
        pieces = sorted(offered.pieces, key=lambda piece: piece.bounds)
        kind += " ".join(digest(piece.read()) for piece in pieces)
    return SeenArray(kind, whole=True, own=alone or is_key(array))


def _is_whole_everywhere(array: Any) -> bool:
    """Return whether each process has all of an array on its devices."""
    jax: Any = sys.modules.get("jax")
    if jax is None or not isinstance(array, jax.Array):
        return False
    whole = elements([[0, size] for size in array.shape])
    found: dict[int, dict[str, int]] = {}
    for device, index in array.sharding.devices_indices_map(tuple(array.shape)).items():
        bounds = [[*part.indices(size)[:2]] for part, size in zip(index, array.shape, strict=True)]
        found.setdefault(device.process_index, {})[str(bounds)] = elements(bounds)
    return all(sum(parts.values()) == whole for parts in found.values())


MOST_OBJECTS = 100_000
"""Most objects that are followed from a cell; if there are more, the names that the cell uses are not known."""

_LEAVES = (int, float, complex, bool, str, bytes, type(None), types.ModuleType)


def used(code: str, namespace: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names that a cell may read; None where that cannot be known.

    Functions of cells are followed wherever they are met: by their names, within objects and closures, and behind
    `jax.jit` and its like. A name may be made up only while the cell runs (`eval`, `globals()[…]`); then the
    answer is None.

    Args:
      code: Python, as IPython compiles it.
      namespace: The user's, which is the globals of functions that cells have defined.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = {name for node in ast.walk(tree) for name in _named(node)}
    found: set[str] = set()
    looked: dict[int, Any] = {}
    while names:
        name = names.pop()
        if name in DYNAMIC:
            return None
        if name in found:
            continue
        found.add(name)
        if name in namespace:
            value = namespace[name]
            if type(value) is types.ModuleType and _has_namespace(vars(value), namespace):
                return None
            for function in _functions(namespace[name], namespace, looked):
                if function.__globals__ is not namespace:
                    return None  # a function of a module that has imported `__main__`
                names |= _names_of(function.__code__) - found
            if len(looked) > MOST_OBJECTS:
                return None
    return frozenset(found)


DYNAMIC = frozenset(
    {
        *("eval", "exec", "globals", "locals", "vars", "get_ipython", "__import__", "__main__"),
        *("query", "modules", "import_module", "__globals__", "f_globals", "user_ns", "_getframe"),
    }
)
"""Names that can reach any name, also as attributes: `pd.eval("x + 1")`, `sys.modules["__main__"].x`."""


def _named(node: ast.AST) -> list[str]:
    """Return the names in a node of a cell; of attributes and imports only those in `DYNAMIC`."""
    if isinstance(node, ast.Name):
        return [node.id]
    found = []
    if isinstance(node, ast.Attribute):
        found = [node.attr]
    elif isinstance(node, ast.Import):
        found = [one.name for one in node.names]
    elif isinstance(node, ast.ImportFrom):
        found = [node.module or "", *(one.name for one in node.names)]
    return [name for name in found if name in DYNAMIC]


def _functions(
    value: Any, namespace: Mapping[str, Any], looked: dict[int, Any]
) -> Iterator[types.FunctionType]:
    """Yield the functions of cells that a value leads to; `looked` holds all objects met, each met once."""
    left = [value]

    def reaches(names: dict[str, Any]) -> bool:
        if id(names) in looked:
            return False
        found = _has_namespace(names, namespace)
        if not found:
            looked[id(names)] = names
        return found

    while left and len(looked) <= MOST_OBJECTS:
        one = left.pop()
        if isinstance(one, _LEAVES) or one is namespace or id(one) in looked:
            continue
        looked[id(one)] = one
        if isinstance(one, types.FunctionType):
            if one.__globals__ is not namespace and not reaches(one.__globals__):
                # A library's own function; functions of cells that were passed to it are among these values.
                left += [*(one.__closure__ or ()), *(one.__defaults__ or ()), one.__dict__]
                continue
            yield one
        elif (isinstance(one, type) and one.__module__ != namespace.get("__name__")) or (
            type(one).__module__.partition(".")[0] in ("numpy", "jaxlib") and not callable(one)
        ):
            continue
        left += gc.get_referents(one)
        left += _kept(one)


def _has_namespace(names: Mapping[str, Any], namespace: Mapping[str, Any]) -> bool:
    """Return whether a module with these names is `__main__` or has imported it."""
    modules = (vars(one) for one in names.values() if type(one) is types.ModuleType)
    return names is namespace or any(one is namespace for one in modules)


def _kept(one: Any) -> Collection[Any]:
    """Return the attributes of an object made in C: a jitted function has the function it was made of in them."""
    found = getattr(type(one), "__dict__", {}).get("__dict__")
    return [found.__get__(one)] if isinstance(found, types.GetSetDescriptorType) else []


def _names_of(code: types.CodeType) -> set[str]:
    """Return global names and attributes of code; at worst, some attributes count as names that are never read."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names_of(constant)
    return found
