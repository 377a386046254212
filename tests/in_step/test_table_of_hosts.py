"""Failures on two hosts over SSH: no cell hangs, no value is another, and the training goes on exactly."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.in_step.disturb import go_through
from tests.in_step.table import (
    ASYNCHRONOUS,
    EVERY,
    KINDS,
    LARGE,
    SMALL,
    SYNCHRONOUS,
    Situation,
)
from tests.in_step.world import World, world
from tests.testbed.hosts import TestBed

TRAININGS = ("jax", "keras")
WAYS = list(itertools.product((SYNCHRONOUS, ASYNCHRONOUS), (SMALL, LARGE)))
ROWS = [
    Situation(kind, *WAYS[number % 4], TRAININGS[number // 4 % 2], 2)
    for number, kind in enumerate(KINDS)
]


@pytest.fixture(scope="module")
def over_ssh(hosts: TestBed) -> Iterator[World]:
    """One process on each of two hosts."""
    with world(None, *TRAININGS, hosts="h1,h2", ssh_config=str(hosts.ssh_config)) as found:
        yield found


@pytest.mark.parametrize("situation", ROWS[::EVERY], ids=str)
def test_after_a_situation_all_values_are_there_and_the_training_goes_on(
    over_ssh: World, situation: Situation
) -> None:
    assert sorted(over_ssh.session.hosts.values()) == ["h1", "h2"]
    go_through(over_ssh, situation)
