"""Guarded calls as processes send them to each other before they make them, and how the calls can disagree."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbdist.engine.cell.where import where
from nbdist.errors import AgreementError
from nbdist.quantities import processes_text

EQUAL = {
    "mesh": "a distribution over {}",
    "steps": "{} steps an epoch",
    "epochs": "epochs up to {}",
    "step rows": "{} rows a step",
    "last rows": "{} rows in the last step",
    "validation steps": "{} validation steps",
    "rows": "{} rows",
}
"""The facts that must be the same on all processes, and the words for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One guarded call of one process.

    `facts` are values under the keys of `EQUAL`, None where not known beforehand. `paths` are files and folders
    that the call will write; processes of one host must not share them. `refusal` is why this process will not
    make the call after all. `rows` is a digest of this process's rows, where each process gives rows of its own.
    """

    method: str
    host: str
    facts: Mapping[str, int | str | None] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    refusal: str | None = None
    rows: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the call in types that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Call:
        """Return the call for a result of `plain`."""
        return cls(**{**data, "paths": tuple(data["paths"])})


def disagreement(calls: Mapping[int, Call], me: int) -> AgreementError | None:
    """Return the error if these calls, one of each process, cannot work together; None if they can.

    Args:
      calls: The calls by process id.
      me: The process that will raise the error.
    """
    for process, call in calls.items():
        if call.refusal is not None and process != me:
            return AgreementError(
                f"{where([process], call.host)} does not call {call.method}: {call.refusal}"
            )
    methods = {process: call.method for process, call in calls.items()}
    if len(set(methods.values())) > 1:
        return AgreementError(
            f"{_each(methods, 'calls {}')}; under the set distribution every process must make the same "
            "calls in the same order. Nothing was started."
        )
    return _different_facts(calls) or _shared_paths(calls)


def same_rows(calls: Mapping[int, Call], times: int) -> str | None:
    """Return a warning if all processes give the same rows where each must give its own; None if they do not.

    Args:
      calls: The calls by process id; the result for one call is None.
      times: How often an epoch trains with a row that all processes give.
    """
    digests = {call.rows for call in calls.values()}
    if len(calls) < 2 or len(digests) > 1 or None in digests:
        return None
    method = next(iter(calls.values())).method
    return (
        f"{method} got the same x on {processes_text(calls)}, so it trains with each row {times} times in an "
        "epoch. With auto_shard_dataset=False each process gives rows of its own, such as "
        f"x[jax.process_index()::{times}]."
    )


def _different_facts(calls: Mapping[int, Call]) -> AgreementError | None:
    method = next(iter(calls.values())).method
    for name, reads in EQUAL.items():
        values = {p: call.facts.get(name) for p, call in calls.items()}
        known = {p: value for p, value in values.items() if value is not None}
        if len(set(known.values())) > 1:
            return AgreementError(
                f"{method} would run with {_each(known, reads)}. Every step is one computation of all "
                f"processes, so the others would wait for ever. {_remedy(name, known)} "
                "Nothing was started."
            )
    return None


def _remedy(name: str, known: Mapping[int, int | str]) -> str:
    if name == "mesh":
        return "Set the same distribution on every process."
    if "steps" in name:
        least = min(v for v in known.values() if isinstance(v, int))
        option = "validation_steps" if name.startswith("validation") else "steps_per_epoch"
        return f"Give every process as many rows, or {option}={least}."
    if name == "epochs":
        return "Give every process the same epochs."
    return "Give every process as many rows."


def _shared_paths(calls: Mapping[int, Call]) -> AgreementError | None:
    users: dict[tuple[str, str], list[int]] = {}
    for process, call in calls.items():
        for path in call.paths:
            users.setdefault((call.host, path), []).append(process)
    for (host, path), ids in users.items():
        if len(ids) > 1:
            method = calls[ids[0]].method
            return AgreementError(
                f"{method} on {where(ids, host)} would write the same path {path}, which "
                f"corrupts it or waits for ever. {_path_remedy(method)} Nothing was written."
            )
    return None


def _path_remedy(method: str) -> str:
    if method.startswith("save"):
        return (
            "On all processes call nbdist.keras.save(model, path), with which process 0 alone writes; "
            "or give each process a path of its own."
        )
    return (
        "Use nbdist.keras.Checkpoint(path), with which process 0 alone writes; "
        "or put it under nbdist.keras.checkpoint_dir(path), which differs between processes."
    )


def _each(values: Mapping[int, object], reads: str) -> str:
    """Return text such as `8 steps on process 0 and 7 steps on process 1`; for calls, the processes come first."""
    groups: dict[object, list[int]] = {}
    for process, value in values.items():
        groups.setdefault(value, []).append(process)
    if reads.startswith("calls"):
        return ", ".join(f"{processes_text(ids)} {reads.format(v)}" for v, ids in groups.items())
    return " and ".join(f"{reads.format(v)} on {processes_text(ids)}" for v, ids in groups.items())
