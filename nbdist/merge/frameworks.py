"""Distributions and models of all processes: which are set, and how variables lie.

Both are merged again only after a process has reported a change; a repeated section costs one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from nbdist.contract.snapshot import DeviceBytes, DeviceKey, Distribution, Model

T = TypeVar("T", Distribution, Model)
By = tuple[tuple[T, tuple[int, ...]], ...]
"""Each version with the processes that have exactly it, that of the lowest process first."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Everything computed from the distributions and models alone; the same object until something changes."""

    distributions: tuple[Distribution, ...]
    models: tuple[Model, ...]
    distribution_of: Mapping[int, Distribution | None]
    versions_of: Mapping[str, By[Model]]
    """By path; the models without their totals, which each process knows for its own devices."""


@dataclass(slots=True)
class _Reported:
    distributions: tuple[Distribution, ...] | None = None
    models: tuple[Model, ...] | None = None
    described: tuple[Model, ...] = field(default=())
    """The models without their totals; equal models of several processes are the same objects."""


class FrameworkIndex:
    """Knows which processes have which distribution set, and which models."""

    def __init__(self) -> None:
        self._reported: dict[int, _Reported] = {}
        # A model of thousands of variables is hashed once for each report, and then known by identity.
        self._known: dict[Model, Model] = {}
        self._merged: Merged | None = None

    def update(
        self,
        process_id: int,
        distributions: tuple[Distribution, ...] | None,
        models: tuple[Model, ...] | None,
    ) -> None:
        """Replace what is known of a process; a section that is None stays as it was."""
        if distributions is None and models is None:
            return
        reported = self._reported.setdefault(process_id, _Reported())
        if distributions is not None and reported.distributions != distributions:
            reported.distributions = distributions
            self._merged = None
        if models is not None and reported.models != models:
            reported.models = models
            bare = (replace(model, totals=()) for model in models)
            reported.described = tuple(self._known.setdefault(one, one) for one in bare)
            self._merged = None

    def forget(self, process_id: int) -> None:
        """Drop what is known of a process."""
        if self._reported.pop(process_id, None) is not None:
            self._merged = None

    def merged(self) -> Merged:
        """Return all versions of everything; the same object until something changes."""
        if self._merged is None:
            self._merged = self._merge()
        return self._merged

    def _merge(self) -> Merged:
        reported = sorted(self._reported.items())
        of = {
            process_id: one.distributions[0] if one.distributions else None
            for process_id, one in reported
            if one.distributions is not None
        }
        set_by: dict[Distribution, list[int]] = {}
        for process_id, one in of.items():
            if one is not None:
                set_by.setdefault(one, []).append(process_id)
        reporting = sum(one.models is not None for _, one in reported)
        versions_of = self._versions()
        return Merged(
            distributions=tuple(
                replace(one, processes=_unless_all(tuple(ids), len(of)))
                for one, ids in set_by.items()
            ),
            models=tuple(
                replace(
                    model,
                    processes=_unless_all(ids, reporting),
                    totals=self._totals(model.path, ids),
                )
                for versions in versions_of.values()
                for model, ids in versions
            ),
            distribution_of=of,
            versions_of=versions_of,
        )

    def _versions(self) -> dict[str, By[Model]]:
        held: dict[int, tuple[Model, list[int]]] = {}
        for process_id, reported in sorted(self._reported.items()):
            for model in reported.described:
                held.setdefault(id(model), (model, []))[1].append(process_id)
        self._known = {model: self._known[model] for model, _ in held.values()}
        found: dict[str, list[tuple[Model, tuple[int, ...]]]] = {}
        for model, ids in held.values():
            found.setdefault(model.path, []).append((model, tuple(ids)))
        return {path: tuple(versions) for path, versions in found.items()}

    def _totals(self, path: str, process_ids: tuple[int, ...]) -> tuple[DeviceBytes, ...]:
        """Return the totals of a model: each process sees its own devices, together they see all."""
        nbytes: dict[DeviceKey, int] = {}
        for process_id in process_ids:
            for model in self._reported[process_id].models or ():
                if model.path == path:
                    for total in model.totals:
                        for key in total.devices:
                            nbytes[key] = max(nbytes.get(key, 0), total.nbytes)
        groups: dict[int, list[DeviceKey]] = {}
        for key, count in nbytes.items():
            groups.setdefault(count, []).append(key)
        return tuple(
            DeviceBytes(devices=tuple(sorted(groups[count], key=_place)), nbytes=count)
            for count in sorted(groups, reverse=True)
        )


def _unless_all(ids: tuple[int, ...], reporting: int) -> tuple[int, ...]:
    return () if len(ids) == reporting else ids


def _place(key: DeviceKey) -> tuple[int, int]:
    process, _, device = key.partition(":")
    return int(process), int(device)
