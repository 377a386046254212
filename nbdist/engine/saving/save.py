"""One save: from the user's variables to the folder that holds them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbdist.contract.calls.saving import SavedName, Saving
from nbdist.engine.saving import folder as folders
from nbdist.engine.saving import orbax
from nbdist.engine.saving.chosen import chosen, refuse_differing, refuse_nothing
from nbdist.engine.saving.exchange import Exchange
from nbdist.engine.saving.folder import Save, Variable
from nbdist.engine.saving.objects import Objects
from nbdist.engine.saving.parts import Parts
from nbdist.engine.saving.structure import plain
from nbdist.errors import OptionError


def save(
    path: str,
    names: tuple[str, ...],
    variables: Mapping[str, Any],
    objects: Objects,
    exchange: Exchange,
    host: str,
) -> Saving:
    """Write variables; called on all processes at the same time.

    Args:
      path: The folder, as a person has written it.
      names: The names of the variables; none: all that hold arrays on several processes.
      variables: The user's, by name.
      objects: Takes the arrays out of models.
      exchange: Exchanges texts with the other processes.
      host: The name of this host.

    Raises:
      OptionError: The folder cannot be used.
      ArrayError: A variable cannot be saved.
      SessionError: Orbax is not there, or the save took too long.
    """
    found: dict[str, Parts] = {}
    left_out: list[str] = []

    def look() -> dict[str, Any]:
        orbax.refuse_without()
        folder = folders.folder_of(path)
        parts, others = chosen(names, variables, objects)
        found.update(parts)
        left_out.extend(others)
        return {
            "host": host,
            "folder": str(folder),
            "digests": {name: one.digest() for name, one in found.items()},
        }

    said = exchange.all("variables", look)
    refuse_differing([one["digests"] for one in said], found, exchange)
    refuse_nothing(found, left_out)
    refuse_other_folders(path, said)
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
            orbax.write(folders.arrays_of(folder, exchange.token), arrays, exchange)
        made = Save(
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
        names=tuple(saved_name(name, one) for name, one in found.items()),
        left_out=tuple(left_out),
    )


def saved_name(name: str, parts: Parts, how: str = "") -> SavedName:
    """Return a report of one variable."""
    return SavedName(
        name=name,
        arrays=sum(part.kind != "scalar" for part in parts.parts),
        nbytes=sum(part.nbytes for part in parts.parts),
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
    found: Mapping[str, Parts],
) -> tuple[tuple[Variable, ...], dict[str, Any]]:
    described, arrays, number = [], {}, 0
    for name, one in found.items():
        described.append(
            Variable(
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


def _structure(one: Parts) -> Any:
    import jax

    try:
        return plain(jax.tree.unflatten(one.tree, range(len(one.parts))))
    except Exception:  # noqa: BLE001 - a class of the user's; restored where a value of it is there
        return None
