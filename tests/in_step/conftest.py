"""A session that many situations share: each leaves it in step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.in_step.table import TRAININGS
from tests.in_step.world import World, world
from tests.testbed.fixtures import hosts

__all__ = ["four", "hosts", "two"]


@pytest.fixture(scope="module")
def two() -> Iterator[World]:
    """Two processes with all four trainings."""
    with world(2, *TRAININGS) as found:
        yield found


@pytest.fixture(scope="module")
def four() -> Iterator[World]:
    """Four processes with all four trainings."""
    with world(4, *TRAININGS) as found:
        yield found
