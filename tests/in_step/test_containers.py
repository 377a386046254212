"""Whatever keeps an array, a device, a mesh or a sharding: after repairs it has the same, and computes with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.in_step.containers import KEPT
from tests.in_step.world import World, compare, world

FAILING = "if me == 1:\n    raise ValueError('first')\nq = total(small)"


@pytest.fixture(scope="module")
def kept() -> Iterator[World]:
    with world(2, "jax") as found:
        found.run(KEPT)
        yield found


def all_there_is(kept: World) -> tuple[dict, dict]:
    kept.run("found = pieces(everything_kept()); known = facts()")
    return kept.values("found"), kept.values("known")


def test_after_two_repairs_every_container_has_what_it_had(kept: World) -> None:
    arrays, facts = all_there_is(kept)
    assert len(arrays[0]) > 40
    for _ in range(2):
        said = kept.attempt(FAILING)
        assert said.repaired, (said.text, str(said.error))
        assert said.lost == {"q"}
        assert "Still with" not in str(said.notice)
        arrays_now, facts_now = all_there_is(kept)
        assert facts_now == facts
        compare(arrays_now, arrays)
        kept.unchanged()
        kept.goes_on("jax")
