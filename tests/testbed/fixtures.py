"""Fixtures of the test bed, for a conftest to import.

Where the machine forbids test hosts, the tests that need them are skipped with the reason; where the
variable CI is set they fail instead, so that nothing passes there without having run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.testbed.hosts import TestBed
from tests.testbed.possible import why_no_hosts


def need(said: str | None) -> None:
    """Goes on when there is nothing to say, else skips, or fails in CI, with what is said."""
    if said is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{said} In CI these tests must run.", pytrace=False)
    pytest.skip(said)


@pytest.fixture(scope="module")
def hosts() -> Iterator[TestBed]:
    """Three hosts, h1 to h3, for the tests of one module; who breaks one mends it."""
    need(why_no_hosts())
    with TestBed(3) as bed:
        yield bed
