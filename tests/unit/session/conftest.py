"""A session on hosts, agents and processes none of which is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.live import LiveHosts


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LiveHosts]:
    """Hosts of sessions, whose records lie in a folder of the test's own."""
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path / "state"))
    made = LiveHosts(monkeypatch)
    yield made
    made.stop()
