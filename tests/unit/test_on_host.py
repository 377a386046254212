"""How an engine names processes."""

from __future__ import annotations

import pytest

from nbdist.notation import ONE_HOST, on_host_text


def test_the_host_is_named_where_the_session_has_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ONE_HOST, raising=False)
    assert on_host_text([2, 0], "h1") == "processes 0, 2 (host h1)"
    monkeypatch.setenv(ONE_HOST, "1")
    assert on_host_text([1], "h1") == "process 1"
