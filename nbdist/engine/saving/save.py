"""One save: writes the user's variables to a folder, after a check that they are alike on all processes.

All processes call `save` at the same time; process 0 alone writes the folder's own files. Without names, all
variables that hold arrays on several processes are saved. Until the last step, which names the arrays in the
folder, an error removes what was written.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdist.contract.calls.namespace import SavedName, Saving
from nbdist.engine.saving import folder as folders
from nbdist.engine.saving.exchange import Exchange, SharedTask, refuse_without_orbax, write_arrays
from nbdist.engine.saving.folder import SavedVariable, SaveFile, plain
from nbdist.engine.saving.parts import SavedLeaf, SavedObjects, VariableParts, is_spanning
from nbdist.errors import ArrayError, OptionError
from nbdist.notation import processes_text


def chosen(
    names: Sequence[str], variables: Mapping[str, Any], objects: SavedObjects
) -> tuple[dict[str, VariableParts], list[str]]:
    """Return the variables to save, and, if none was asked for by name, a text for each that cannot be saved.

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
        return {name: VariableParts(name, variables[name], objects) for name in names}, []
    found, left_out = {}, []
    for name, value in variables.items():
        arrays = _arrays(value, objects)
        if not any(is_spanning(array) for array in arrays):
            left_out += (
                [f"{name}: each process has its own; give its name to save it"] if arrays else []
            )
            continue
        try:
            found[name] = VariableParts(name, value, objects)
        except ArrayError as error:
            left_out.append(str(error).removesuffix(" Nothing was written."))
    return found, left_out


def refuse_nothing(found: Mapping[str, VariableParts], left_out: Sequence[str]) -> None:
    """Raise an error if there is nothing to save; call this once all processes are known to have the same names.

    Raises:
      ArrayError: There is nothing.
    """
    if not found:
        said = "".join(f"\nLeft out: {one}" for one in left_out)
        raise ArrayError(
            "No name of the processes has arrays that can be saved by shard; nothing was written. To save a "
            f"value that each process has for itself, give its name.{said}"
        )


def refuse_differing(
    found: Sequence[Mapping[str, str]], mine: Mapping[str, VariableParts], exchange: Exchange
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


def _arrays(value: Any, objects: SavedObjects) -> list[Any]:
    import jax

    try:
        leaves = jax.tree.leaves(objects.with_states("it", value))
    except Exception:  # noqa: BLE001 - a class of the user's that cannot be taken apart
        return []
    return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]


def save(task: SharedTask) -> Saving:
    """Write variables; called on all processes at the same time.

    Raises:
      OptionError: The folder cannot be used.
      ArrayError: A variable cannot be saved.
      SessionError: Orbax is not installed, or the save took too long.
    """
    exchange = task.exchange
    found: dict[str, VariableParts] = {}
    left_out: list[str] = []

    def look() -> dict[str, Any]:
        refuse_without_orbax()
        folder = folders.folder_of(task.path)
        parts, others = chosen(task.names, task.variables, task.objects)
        found.update(parts)
        left_out.extend(others)
        return {
            "host": task.host,
            "folder": str(folder),
            "digests": {name: one.digest() for name, one in found.items()},
        }

    said = exchange.all("variables", look)
    refuse_differing([one["digests"] for one in said], found, exchange)
    refuse_nothing(found, left_out)
    refuse_other_folders(task.path, said)
    folder = Path(said[0]["folder"])
    first = exchange.process_id == 0

    def mark() -> None:
        if first:
            folders.refuse_foreign(folder)
            folders.mark(folder, exchange.token)

    exchange.all("folder", mark)
    try:
        _refuse_unseen(
            folder, said, exchange.all("marker", lambda: folders.sees(folder, exchange.token))
        )
        described, arrays = _described(found)
        if arrays:
            write_arrays(folders.arrays_of(folder, exchange.token), arrays, exchange)
        made = SaveFile(
            arrays=folders.arrays_of(folder, exchange.token).name if arrays else "",
            processes=exchange.count,
            variables=described,
        )
        exchange.all("written", lambda: None)
    except BaseException:
        if first:
            for one in folder.glob(f"{folders.ARRAYS}{exchange.token}*"):
                shutil.rmtree(one, ignore_errors=True)
            folders.unmark(folder, exchange.token)
        raise

    def commit() -> None:
        if first:
            folders.commit(folder, exchange.token, made)

    exchange.all("named", commit)
    return Saving(
        path=str(folder),
        names=tuple(saved_name(name, one.parts) for name, one in found.items()),
        left_out=tuple(left_out),
    )


def saved_name(name: str, parts: Sequence[SavedLeaf], how: str = "") -> SavedName:
    """Return a report of one variable."""
    return SavedName(
        name=name,
        arrays=sum(part.kind != "scalar" for part in parts),
        nbytes=sum(part.nbytes for part in parts),
        how=how,
    )


def refuse_other_folders(path: str, said: list[dict[str, Any]]) -> None:
    """Raise an error unless all processes mean the same folder.

    Raises:
      OptionError: The processes mean different folders.
    """
    for process_id, one in enumerate(said):
        if one["folder"] != said[0]["folder"]:
            raise OptionError(
                f"PATH {path!r} is {said[0]['folder']!r} on process 0 and {one['folder']!r} on process "
                f"{process_id} (host {one['host']}). Give the whole path of a folder that all hosts see. Nothing "
                "was written."
            )


def _refuse_unseen(folder: Path, said: list[dict[str, Any]], seen: list[bool]) -> None:
    blind = [p for p, one in enumerate(seen) if not one]
    if blind:
        hosts = ", ".join(dict.fromkeys(said[p]["host"] for p in blind))
        raise OptionError(
            f"PATH {str(folder)!r}: what process 0 (host {said[0]['host']}) writes there cannot be seen on "
            f"{hosts}. All hosts need the same folder, such as one of a network file system. Nothing was written."
        )


def _described(
    found: Mapping[str, VariableParts],
) -> tuple[tuple[SavedVariable, ...], dict[str, Any]]:
    described, arrays, number = [], {}, 0
    for name, one in found.items():
        described.append(
            SavedVariable(
                name=name,
                first=number,
                parts=tuple(one.parts),
                structure=_structure(one),
            )
        )
        for part, value in zip(one.parts, one.values, strict=True):
            if part.kind != "scalar":
                arrays[str(number)] = value
            number += 1
    return tuple(described), arrays


def _structure(one: VariableParts) -> Any:
    import jax

    try:
        return plain(jax.tree.unflatten(one.tree, range(len(one.parts))))
    except Exception:  # noqa: BLE001 - a class of the user's; restored where a value of it is there
        return None
