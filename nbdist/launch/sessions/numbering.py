"""Process ids of engines that somebody else has started: a pure function of their descriptions."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.contract.calls.engine import Described
from nbdist.engine.kernel.foreign_engine import NUMBERS
from nbdist.errors import LaunchError


def number(engines: Mapping[int, Described]) -> tuple[dict[int, int], str]:
    """Return process ids, dense from 0, by ipyparallel's engine id.

    ipyparallel's own ids follow the order of registration and mean nothing. The ids come from the first of these
    that applies: the ids a kernel gave the engines before; JAX's cluster, if they are in one; a launcher's
    variable in their environments, if it numbers all of them; the order of hosts and engine ids.

    Args:
      engines: Each engine's description of itself, by its id.

    Returns:
      The ids, and where they come from.

    Raises:
      LaunchError: Engines that were numbered before are gone, so that the rest cannot be a cluster.
    """
    settled = {engine: facts.settled for engine, facts in engines.items()}
    if any(number is not None for number in settled.values()):
        return _with_the_rest(engines, settled), "as a kernel before this one has numbered them"
    joined = {e: f.joined.process_id if f.joined else None for e, f in engines.items()}
    if _is_dense(joined):
        return {e: int(n) for e, n in joined.items() if n is not None}, "as in JAX's cluster"
    for name in NUMBERS:
        numbers = {engine: facts.numbers.get(name) for engine, facts in engines.items()}
        if _is_dense(numbers):
            return {e: int(n) for e, n in numbers.items() if n is not None}, f"by {name}"
    return _by_host(engines), "by host and engine id"


def _is_dense(numbers: Mapping[int, int | None]) -> bool:
    known = [number for number in numbers.values() if number is not None]
    return sorted(known) == list(range(len(numbers)))


def _by_host(engines: Mapping[int, Described]) -> dict[int, int]:
    order = sorted(engines, key=lambda engine: (engines[engine].host, engine))
    return {engine: process_id for process_id, engine in enumerate(order)}


def _with_the_rest(
    engines: Mapping[int, Described], settled: Mapping[int, int | None]
) -> dict[int, int]:
    """Keep the existing numbers, and give the free ones to engines that came later."""
    known = {engine: number for engine, number in settled.items() if number is not None}
    if len(set(known.values())) < len(known) or max(known.values()) >= len(engines):
        listed = ", ".join(map(str, sorted(known.values())))
        raise LaunchError(
            f"These {len(engines)} engines were processes {listed} of a session: others of it are gone. Start all "
            "of them again where they came from."
        )
    free = iter(sorted(set(range(len(engines))) - set(known.values())))
    rest = [engine for engine in _by_host(engines) if engine not in known]
    return {**known, **{engine: next(free) for engine in rest}}
