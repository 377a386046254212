"""A computation that all processes have sent is waited for, before a proof and before connections are cut."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from nbdist.session.recovery import in_place
from tests.in_step.world import World, world

HEAVY = """
import functools

@jax.jit
def heavy(x, rounds):
    turned = jax.lax.fori_loop(0, rounds, lambda i, v: jnp.tanh(v @ v * 0.01), x)
    return turned.sum() * 0 + x.sum()

matrices = spread(np.ones((jax.device_count(), 256, 256), np.float32), split)
count = jax.device_count() * 256 * 256
float(heavy(matrices, 1))
"""
ROUNDS = 40
SECONDS = 9.0
"""Longer than whatever a cut waits for, and than the proof is given here."""


@pytest.fixture(scope="module")
def heavy() -> Iterator[tuple[World, int]]:
    """A session, and how many rounds take about so long in it."""
    with world(2, "jax") as found:
        found.run(HEAVY)
        began = time.monotonic()
        found.run(f"float(heavy(matrices, {ROUNDS}))")
        took = time.monotonic() - began
        yield found, int(ROUNDS * SECONDS / took) + 1


def test_a_proof_is_asked_for_when_it_is_there(
    heavy: tuple[World, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_place, "PROVE_SECONDS", SECONDS / 3)
    session, rounds = heavy
    # One process may be much slower than the other: it is not to be interrupted before it has sent anything.
    said = session.attempt(f"late = heavy(matrices, {rounds})\nraise ValueError", grace_s=30.0)
    assert said.error is not None
    assert not said.repaired, said.text
    session.run("right = float(late) == count")
    session.all_have("right", True)
    session.goes_on("jax", 1)


def test_it_is_kept_where_connections_are_cut(heavy: tuple[World, int]) -> None:
    session, rounds = heavy
    said = session.attempt(
        f"late = heavy(matrices, {rounds})\nif me == 1:\n    raise ValueError\nnever = total(small)",
        grace_s=2.0,
    )
    assert said.repaired, said.text
    assert said.lost == {"never"}
    session.run("right = float(late) == count")
    session.all_have("right", True)
    session.in_use("jax", 1)
    session.goes_on("jax", 1)
