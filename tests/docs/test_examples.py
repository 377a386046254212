"""What the tutorial and the how-to pages have typed is typed, and shows what they say."""

from __future__ import annotations

import pytest

from tests.docs.pages import Typed, agrees, environment, pages, typed
from tests.docs.running import Said, check, run

RUN = {
    page: [block for block in typed(page) if block.not_run is None]
    for page in pages()
    if environment(page) is None
}
BLOCKS = [block for blocks in RUN.values() for block in blocks]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """By place, what each cell has shown."""
    return run(RUN, folder=tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_shows_what_its_page_says(block: Typed, said: dict[str, Said]) -> None:
    check(block, said)


def test_sessions_around_pages_start_and_end(said: dict[str, Said]) -> None:
    around = {place: found for place, found in said.items() if "%" in place}
    assert around
    assert {place: found.text for place, found in around.items() if found.failed} == {}


def test_the_whole_tutorial_is_run() -> None:
    tutorial = typed(pages()[0])
    assert len(tutorial) > 10
    assert not [block.place for block in tutorial if block.not_run]


def test_only_times_and_versions_may_differ() -> None:
    shown = "ready in 1.5 s, jax 0.12.0.1\n…\nloss 0.5"
    assert agrees(shown, "ready in 21.5 s, jax 0.13\nx\ny\nloss 0.5\n")
    assert agrees(shown, "ready in 21.5 s, jax 0.13\nloss 0.5")
    assert not agrees(shown, "ready in 21.5 s, jax 0.13\nx\nloss 0.6")
    assert not agrees(shown, "ready in 21.5 s\nx\nloss 0.5")
    waited = "process 0   interrupted while waiting at line 4: f()"
    assert agrees(waited, "process 0   interrupted at line 4: f()")
    assert not agrees(waited, "process 0   interrupted while waiting at line 5: f()")
