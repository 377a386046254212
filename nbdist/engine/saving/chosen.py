"""The variables that are saved, and the check that all processes have them alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.engine.saving.exchange import Exchange
from nbdist.engine.saving.objects import Objects
from nbdist.engine.saving.parts import Parts, is_spanning
from nbdist.errors import ArrayError
from nbdist.quantities import processes_text


def chosen(
    names: Sequence[str], variables: Mapping[str, Any], objects: Objects
) -> tuple[dict[str, Parts], list[str]]:
    """Return the variables to save, and a text for each that cannot be saved and was not asked for by name.

    Args:
      names: As a person has written them; none: all that hold arrays on several processes.
      variables: The user's, by name.
      objects: Takes the arrays out of models.

    Raises:
      ArrayError: There is no such name, or its value cannot be saved.
    """
    unknown = [name for name in names if name not in variables]
    if unknown:
        raise ArrayError(f"The processes have no name {unknown[0]!r}; nothing was written.")
    if names:
        return {name: Parts(name, variables[name], objects) for name in names}, []
    found, left_out = {}, []
    for name, value in variables.items():
        arrays = _arrays(value, objects)
        if not any(is_spanning(array) for array in arrays):
            left_out += (
                [f"{name}: each process has its own; give its name to save it"] if arrays else []
            )
            continue
        try:
            found[name] = Parts(name, value, objects)
        except ArrayError as error:
            left_out.append(str(error).removesuffix(" Nothing was written."))
    return found, left_out


def refuse_nothing(found: Mapping[str, Parts], left_out: Sequence[str]) -> None:
    """Raise an error if there is nothing to save; call this once all processes are known to have the same names.

    Raises:
      ArrayError: There is nothing.
    """
    if not found:
        said = "".join(f"\nLeft out: {one}" for one in left_out)
        raise ArrayError(
            "No name of the processes has arrays that can be saved by shard; nothing was written. What each "
            f"process has for itself is saved where its name is given.{said}"
        )


def refuse_differing(
    found: Sequence[Mapping[str, str]], mine: Mapping[str, Parts], exchange: Exchange
) -> None:
    """Raise an error unless variables are alike on all processes.

    Args:
      found: The digests of each process, by name.
      mine: The variables of this process.
      exchange: Gets the digests of parts where variables differ; all processes call this with the same `found`.

    Raises:
      ArrayError: A variable differs; names the first one, and the first difference in it.
    """
    for name in dict.fromkeys(name for one in found for name in one):
        lacking = [p for p, one in enumerate(found) if name not in one]
        if lacking:
            raise ArrayError(
                f"{name} cannot be saved from {processes_text(lacking)}, and can from the others. All processes "
                "need it with the same structure. Nothing was written."
            )
        if len({one[name] for one in found}) > 1:
            raise ArrayError(
                _difference(name, exchange.all(f"parts of {name}", mine[name].digests))
            )


def _difference(name: str, of_each: Sequence[Sequence[Sequence[str]]]) -> str:
    first = [tuple(one) for one in of_each[0]]
    for process_id, parts in enumerate(of_each):
        others = [tuple(one) for one in parts]
        if [path for path, _ in others] != [path for path, _ in first]:
            return (
                f"{name} has another structure on process {process_id} ({len(others)} leaves) than on process 0 "
                f"({len(first)}). Nothing was written."
            )
        for (path, mine), (_, its) in zip(first, others, strict=True):
            if mine != its:
                return (
                    f"{name}{path} differs between process 0 and process {process_id}: its type, shape, "
                    "sharding, or, where each process has its own, its values. Make it equal, such as by "
                    "jax.device_put onto all devices. Nothing was written."
                )
    return f"{name} differs between processes. Nothing was written."


def _arrays(value: Any, objects: Objects) -> list[Any]:
    import jax

    try:
        leaves = jax.tree.leaves(objects.with_states("it", value))
    except Exception:  # noqa: BLE001 - a class of the user's that cannot be taken apart
        return []
    return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
