"""A session on hosts, agents and processes none of which is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.session.cells.doubt import nowhere
from nbdist.session.engine_group import EngineGroup
from tests.builders.engines import FakeEngines
from tests.builders.live import LiveHosts


@pytest.fixture(autouse=True)
def engines_keep_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines without processes keep the last notice, and the sentences about lost arrays, as others do."""
    kept = {"noticed": EngineGroup.noticed, "made_in": staticmethod(nowhere), "lost_texts": {}}
    for name, value in {**kept, "notice": None}.items():
        monkeypatch.setattr(FakeEngines, name, value, raising=False)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LiveHosts]:
    """Hosts of sessions, whose records lie in a folder of the test's own."""
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path / "state"))
    made = LiveHosts(monkeypatch)
    yield made
    made.stop()
