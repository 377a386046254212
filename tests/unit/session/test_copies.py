from __future__ import annotations

import pytest

from nbdist.session.values.copies import Copies, CopyRound, KeptCopies


def test_copies_are_due_once_in_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    copies = Copies(30)
    assert not copies.due
    now[0] = 130.0
    assert copies.due
    copies.tried()
    assert not copies.due
    now[0] = 160.5
    assert copies.due
    assert not Copies().due and Copies(0).due


@pytest.mark.parametrize(
    ("kept", "size"),
    [({0: 3 << 20, 1: 3 << 20}, "3 MB"), ({0: 1 << 20, 1: 2 << 20}, "1 MB to 2 MB")],
)
def test_how_old_they_are_and_what_they_take(
    kept: dict[int, int], size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 64.0)
    copies = Copies(30)
    assert copies.text() == "no copies were made yet"
    copied = CopyRound(number=1, arrays=12, sent=0, kept=kept)
    copies.kept = KeptCopies(copied=copied, cell=12, at=30.0, seconds=0.1)
    assert (
        copies.text()
        == f"copies of 12 arrays, made after cell 12, 34.0 s ago, in 0.1 s: {size} on each process"
    )
    assert Copies().text() is None
