"""Texts are compared as who types a magic reads them; `test_spelling.py` compares both doors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbdist.spelling import Door, through


@pytest.fixture(autouse=True)
def typed_in_a_magic() -> Iterator[None]:
    """What a test calls is called as from a magic."""
    with through(Door.MAGIC):
        yield
