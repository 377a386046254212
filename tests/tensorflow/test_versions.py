"""The README's line of TensorFlow names nothing that is newer than what these tests run with."""

from __future__ import annotations

import pytest

from tests.versions import README, behind, installed, named


def test_this_environment_is_not_behind_the_versions_the_readme_names() -> None:
    promised, here = (
        named("tensorflow", README.read_text(encoding="utf-8")),
        installed("tensorflow"),
    )
    if behind({"python": promised["python"]}, here):
        pytest.skip(f"the README's TensorFlow is on Python {promised['python']}, which is not here")
    assert behind(promised, here) == {}
