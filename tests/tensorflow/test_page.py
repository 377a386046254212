"""What the page about TensorFlow has typed is typed, and shows what it says."""

from __future__ import annotations

import pytest

from tests.docs.pages import Typed, environment, pages, typed
from tests.docs.running import Said, check, run

RUN = {page: typed(page) for page in pages() if environment(page) == "tensorflow"}
BLOCKS = [block for blocks in RUN.values() for block in blocks if block.not_run is None]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """By place, what each cell has shown."""
    folder = tmp_path_factory.mktemp("page")
    return run(RUN, folder=folder, without=("TF_CPP_", "KERAS_"))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_shows_what_the_page_says(block: Typed, said: dict[str, Said]) -> None:
    check(block, said)


def test_no_block_is_left_out() -> None:
    assert len(BLOCKS) >= 3
    assert not [block.place for blocks in RUN.values() for block in blocks if block.not_run]
