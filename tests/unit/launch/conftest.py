"""Hosts that are not there, for tests of each step of a start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders.hosts import FakeHosts


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHosts]:
    made = FakeHosts(monkeypatch)
    yield made
    made.stop()
