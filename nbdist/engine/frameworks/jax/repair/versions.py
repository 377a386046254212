"""Origins of the user's arrays by path, and the names by which a program still reaches old objects after a repair.

`versions` returns the origins of the arrays that lie on several processes. The kernel compares those of all
processes to see whether the pieces of an array belong together; `forget` drops arrays whose pieces do not.

An object that no path leads to may still be held by a function or a container. `names_of` finds its name for a
message, by following references back to the user's namespace. The frames of the last error hold objects as well
(`LastFrames`).
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import re
import sys
import traceback
import types
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from nbdist.contract.calls.stepping import Origin, Versions
from nbdist.engine.cell.stacks import CodeOwners
from nbdist.engine.frameworks import frameworks
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.private import base_array
from nbdist.engine.frameworks.jax.repair.become import instance_dict, repoint_variables
from nbdist.engine.frameworks.jax.repair.survey import Twins
from nbdist.engine.frameworks.jax.step import Step
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN
from nbdist.engine.probe.walk import IPYTHON_NAMES


def versions(
    namespace: dict[str, Any], step: Step, lost: Mapping[int, str] | None = None
) -> Versions:
    """Return the origin of each array that lies on several processes.

    Args:
      namespace: The user's namespace.
      step: Has noted the origins.
      lost: The reason why an array's values could not be read, by the `id` of the array.

    Returns:
      Origins by path; None for an array in `lost`.
    """
    import jax

    lost = lost or {}
    named = array_paths(namespace, jax.Array)
    found: dict[str, Origin | None] = {}
    reasons = {}
    for path, array in named.items():
        if not isinstance(array, jax.Array) or array.is_fully_addressable:
            continue
        if not array.sharding.addressable_devices:
            continue  # this process has no piece of it
        if id(array) in lost:
            found[path], reasons[path] = None, lost[id(array)]
        elif not array.is_deleted():
            found[path] = step.dispatched.origins.of(array)
    unnamed = Counter(origin for _, origin in without_path(step, named.values()))
    return Versions(
        versions=found,
        reasons=reasons,
        unnamed=tuple(unnamed.items()),
        generation=step.dispatched.generation,
    )


def mixed(
    namespace: dict[str, Any],
    step: Step,
    *,
    paths: Collection[str],
    unnamed: Collection[Origin],
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the arrays at these paths, and the arrays of these origins that have no path, by `id`.

    Returns:
      First the arrays that only these paths lead to, then those that another, right path leads to as well.
    """
    import jax

    named = array_paths(namespace, jax.Array)
    origins = set(unnamed)
    found = {id(named[path]): named[path] for path in paths if path in named}
    right = {id(array) for path, array in named.items() if path not in paths}
    shared = {number: array for number, array in found.items() if number in right}
    alone = {number: array for number, array in found.items() if number not in right}
    hidden = {
        id(array): array
        for array, origin in without_path(step, named.values())
        if origin in origins
    }
    return alone | hidden, shared


def forget(
    namespace: dict[str, Any],
    step: Step,
    *,
    paths: Collection[str],
    unnamed: Collection[Origin],
    whole: bool = False,
) -> list[str]:
    """Make the arrays at these paths raise an error when they are used.

    An array that a right path leads to as well stays there: the wrong name gets new containers, with an array
    without values in its place. If this would replace an object by another one, the array is deleted. With
    `whole` every array is deleted.

    Returns:
      The right paths whose arrays were deleted, and the other holders of deleted arrays; see `names_of_arrays`.
    """
    import jax

    alone, shared = mixed(namespace, step, paths=paths, unnamed=unnamed)
    known = (
        {id(array) for array in array_paths(namespace, jax.Array).values()} if unnamed else alone
    )
    held = names_of_arrays([a for number, a in alone.items() if number not in known], namespace)
    if whole:
        every = alone | shared
        named = array_paths(namespace, jax.Array)
        for array in every.values():
            if not array.is_deleted():
                array.delete()
        also = {path for path, a in named.items() if id(a) in every and path not in paths}
        return sorted({*also, *held})
    for name in sorted({_first_name(path) for path in paths} & namespace.keys()):
        within = array_paths({name: namespace[name]}, jax.Array)
        wrong = {id(a) for path, a in within.items() if path in paths and id(a) in shared}
        if wrong:
            namespace[name] = _without(namespace[name], wrong, step)
    left = array_paths(namespace, jax.Array)
    still = {id(left[path]) for path in paths if path in left} & shared.keys()
    for number, array in (alone | shared).items():
        if (number in alone or number in still) and not array.is_deleted():
            array.delete()
    also = {path for path, a in left.items() if id(a) in still and path not in paths}
    return sorted({*also, *held})


def _first_name(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _without(value: Any, wrong: Collection[int], step: Step) -> Any:
    """Return new containers like these, with arrays without values in place of the arrays of these ids."""
    import jax

    def renewed(leaf: Any) -> Any:
        key = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if id(leaf) not in wrong or key:
            return leaf
        found = _emptied(leaf)
        step.dispatched.origins.move(leaf, found)
        return found

    return jax.tree_util.tree_map(renewed, value, is_leaf=_keeps_its_identity)


def _keeps_its_identity(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return False
    parameters = getattr(type(value), "__dataclass_params__", None)
    return not getattr(parameters, "frozen", False)


def _emptied(array: Any) -> Any:
    """Return an array of the same type and sharding that is deleted, so that using it raises an error."""
    import jax
    import numpy

    zeros = numpy.zeros(array.sharding.shard_shape(array.shape), array.dtype)
    found = jax.make_array_from_callback(array.shape, array.sharding, lambda index: zeros)
    found.delete()
    return found


def without_path(step: Step, named: Collection[Any]) -> list[tuple[Any, Origin]]:
    """Return the arrays on several processes that are not in `named`, each with its origin, if that is known."""
    known = {id(array) for array in named}
    # A typed key holds an array; deleting the array deletes the key.
    known |= {id(base_array(array)) for array in named}
    return [
        (array, origin)
        for array, origin in step.dispatched.origins
        if origin != UNKNOWN
        and id(array) not in known
        and not array.is_fully_addressable
        and not array.is_deleted()
    ]


STEPS = 8
"""The number of references that are followed back from an object to a name."""

MOST_NAMED = 20
"""Most objects for which a name is looked for; each costs a walk back through the heap."""

_OF_IPYTHON = re.compile(r"_+|_i+|_i?\d+|_[dio]h|_exit_code|__\w+__")


def names_of(holders: Sequence[Any], namespace: dict[str, object]) -> list[str]:
    """Return a few words for each of these objects that a user's program reaches by a name."""
    found = set()
    for holder in holders[:MOST_NAMED]:
        name = reached_from(holder, namespace)
        if name is not None:
            found.add(f"{name} (through a {type(holder).__name__})")
    return sorted(found)


def names_of_arrays(arrays: Collection[Any], namespace: dict[str, object]) -> list[str]:
    """Return the names by which a user's program reaches arrays that have no path, each as a few words.

    Variables of functions that have ended, which an exception keeps, do not count.
    """
    if not arrays:
        return []
    wanted = tuple(arrays)
    ids = {id(array) for array in wanted}
    found, holders = set(), []
    for holder in gc.get_referrers(*wanted):
        if holder is wanted or holder is arrays or type(holder) is types.FrameType:
            continue
        if holder is namespace:
            found |= {n for n, v in [*namespace.items()] if id(v) in ids and _is_users(n)}
        elif _is_module(holder):
            found |= {f"{holder['__name__']}.{n}" for n, v in [*holder.items()] if id(v) in ids}
        else:
            holders.append(holder)
    return sorted({*found, *names_of(holders, namespace)})


def names_by_id(ids: Collection[int], namespace: dict[str, object]) -> list[str]:
    """Return the names of dicts and sets with one of these ids as a key, or of objects with such an attribute."""
    found = set()
    for name, value in filter(lambda item: _is_users(item[0]), [*namespace.items()]):
        own = () if _is_module(value) else (instance_dict(value) or {}).values()
        if any(_has_key(table, ids) for table in (value, *own)):
            found.add(f"{name} (through id())")
    return sorted(found)


def _has_key(table: Any, ids: Collection[int]) -> bool:
    """Return whether one of these ids is a key; looks no further than the first key if that is no int."""
    kind = next((k for k in (dict, set, frozenset) if issubclass(type(table), k)), None)
    if kind is None or type(next(kind.__iter__(table), None)) is not int:
        return False
    return any(type(key) is int and key in ids for key in [*kind.__iter__(table)])


def reached_from(holder: Any, namespace: dict[str, object]) -> str | None:
    """Return a name through which a user's program reaches an object within `STEPS`; None if there is none."""
    seen = {id(holder)}
    frontier: list[Any] = [holder]
    for _ in range(STEPS):
        referrers = gc.get_referrers(*frontier)
        if any(referrer is namespace for referrer in referrers):
            name = _name(frontier, namespace)
            if name is not None:
                return name
            seen.add(id(namespace))
        following = []
        for referrer in referrers:
            if id(referrer) not in seen and referrer is not frontier and not _is_module(referrer):
                seen.add(id(referrer))
                following.append(referrer)
        if not following or len(following) > 2000:
            return None
        frontier = following
    return None


def _is_module(value: Any) -> bool:
    """Return whether a value is a module or its `__dict__`; users could not remake it, so its name is no help."""
    return type(value) is types.ModuleType or (type(value) is dict and "__spec__" in value)


def _name(values: Iterable[Any], namespace: dict[str, object]) -> str | None:
    ids = {id(value) for value in values}
    names = [name for name, value in list(namespace.items()) if id(value) in ids]
    # Names without a leading underscore come first: users know them.
    return min(filter(_is_users, names), key=lambda name: name.startswith("_"), default=None)


def _is_users(name: str) -> bool:
    return name not in IPYTHON_NAMES and not _OF_IPYTHON.fullmatch(name)


OWN = str(Path(__file__).parents[4])
"""Folder of nbdist's own code."""


class LastFrames:
    """The frames of the user's own functions in the last error, for a debugger to show after a repair.

    All other frames are cleared; their text has been shown. Frames of frameworks refer to programs and buffers of
    the old back end, which cannot be re-pointed.
    """

    def __init__(self) -> None:
        self._kept: list[FrameType] = []
        self._errors = list(_chain(getattr(sys, "last_value", None)))
        for error in self._errors:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                if _is_the_users(frame.f_code.co_filename):
                    self._kept.append(frame)
                else:
                    with contextlib.suppress(
                        RuntimeError
                    ):  # the frame still runs, as those that run cells do
                        frame.clear()

    def repoint(self, twins: Twins) -> None:
        """Re-point the kept errors and frames; `become` changes no frames, since most of them run."""
        for error in self._errors:
            error.args = twins.of(error.args)
        for frame in self._functions():
            repoint_variables(frame, twins)

    def _functions(self) -> Iterable[FrameType]:
        # The variables of a cell itself are the namespace.
        return (one for one in self._kept if one.f_code.co_flags & inspect.CO_OPTIMIZED)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


def _is_the_users(filename: str) -> bool:
    installed = "site-packages" in filename or filename.startswith(OWN)
    return not installed and CodeOwners(frameworks()).side(filename) == "user"
