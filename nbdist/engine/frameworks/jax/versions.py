"""Origins of a process's arrays on several processes, compared to see whether the pieces belong together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from nbdist.contract.calls.stepping import Origin, Versions
from nbdist.contract.iopub import Rescued
from nbdist.engine.frameworks.interfaces import Repairs, ThisProcess
from nbdist.engine.frameworks.jax.arrays import rescue
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.private import base_array
from nbdist.engine.frameworks.jax.repair.names import names_of_arrays
from nbdist.engine.frameworks.jax.start import step_of, step_or_new
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN
from nbdist.engine.frameworks.jax.step.step import Step


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
      First the arrays that no other path is known to lead to, then those that a right path leads to as well.
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
    for name in sorted({_name(path) for path in paths} & namespace.keys()):
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


def _name(path: str) -> str:
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
    """Return the arrays on several processes that are not in `named` and have a known origin, each with it."""
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


class JaxRecovery:
    """Programs compared between processes, and repair in place, as `interfaces.Recovery` has them."""

    def versions(self, process: ThisProcess) -> Versions:
        """Return which program computed each array on several processes."""
        return versions(process.shell.user_ns, step_of(process))

    def forget(
        self,
        process: ThisProcess,
        paths: Collection[str],
        unnamed: Collection[Origin],
        *,
        whole: bool = False,
    ) -> list[str]:
        """Make arrays unusable whose pieces do not belong together; return which other paths led to them."""
        names, step = process.shell.user_ns, step_or_new(process)
        return forget(names, step, paths=paths, unnamed=unnamed, whole=whole)

    def repair(self, process: ThisProcess) -> Repairs:
        """Return a repair of this process that has just begun."""
        from nbdist.engine.frameworks.jax.repair.repair import Repair

        return Repair(process.shell.user_ns, folder=process.folder, step=step_of(process))

    def rescue(self, namespace: dict[str, object], process_id: int) -> Rescued | None:
        """Write the named arrays of this process to a file."""
        return rescue(namespace, process_id)
