"""The memory that this process takes."""

from pathlib import Path

import pytest

from nbdist.engine.probe.activity import rss_bytes


def test_resident_memory_is_known_also_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    from_proc = rss_bytes()
    assert from_proc > 10 << 20

    def absent(self: Path) -> bytes:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_bytes", absent)
    assert rss_bytes() > 10 << 20
