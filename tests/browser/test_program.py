"""A compiled program in the view on a page of its own: what it needs, and who exchanges data with whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import OpenView
from playwright.sync_api import Locator, Page, expect

Golden = Callable[[str], dict[str, Any]]


def rows(page: Page) -> Locator:
    return page.locator(".nbdist-program-collectives tbody tr")


def expect_chosen(page: Page, *wanted: int) -> None:
    """That these rows are chosen, and no others."""
    for number in wanted:
        expect(rows(page).nth(number)).to_have_attribute("aria-selected", "true")
    expect(page.locator(".nbdist-program-collectives tr[aria-selected='true']")).to_have_count(
        len(wanted)
    )


def expect_cards(page: Page, attribute: str, *wanted: str) -> None:
    """That the cards of these devices have an attribute, and no others."""
    for device in wanted:
        expect(
            page.locator(f".nbdist-mesh-card[data-device='{device}'][{attribute}]")
        ).to_have_count(1)
    expect(page.locator(f".nbdist-mesh-card[{attribute}]")).to_have_count(len(wanted))


def expect_groups(page: Page, wanted: dict[str, tuple[str, ...]]) -> None:
    """What the cards of devices say."""
    for text, devices in wanted.items():
        for device in devices:
            expect(page.locator(f"[data-device='{device}'] .nbdist-mesh-holds")).to_have_text(text)


@pytest.fixture
def step(golden: Golden) -> dict[str, Any]:
    snapshot: dict[str, Any] = golden("compiled_step")["snapshot"]
    return snapshot


FIRST, SECOND = ("0:0", "0:1", "0:2", "0:3"), ("1:4", "1:5", "1:6", "1:7")
HALVES = {"group 0": FIRST, "group 1": SECOND}
PAIRS = {f"group {n}": (f"0:{n}", f"1:{n + 4}") for n in range(4)}


def test_a_program_is_shown_beside_its_mesh(open_view: OpenView, step: dict[str, Any]) -> None:
    page = open_view(step)
    expect(page.locator(".nbdist-session-bar")).to_have_text("compiled8 TPU v5 lite devices")
    program = page.get_by_role("region", name="Program")
    expect(program).to_contain_text("jit_step: fits, 4 MB of 16 GB on each device 16 GB are left")
    expect(program.get_by_role("img")).to_have_attribute(
        "aria-label", "4 MB of 16 GB on each device"
    )
    expect(program.locator(".nbdist-program-parts")).to_contain_text(
        "outputs 3 MB, of which 3 MB reuse argument buffers (donated)"
    )
    expect(rows(page).nth(2)).to_have_text("all-reducedata512 KB6backwardprograms.py:109")
    expect(program).to_contain_text("along data: 3 MB per device in one run")
    expect(program).to_contain_text("1.5 MBf32[6,256,256]")
    expect(page.locator(".nbdist-session-foot")).to_have_text("Needs 4 MB per device")
    expect(page.get_by_role("tab", name="arrays")).to_be_hidden()


def test_a_collective_is_chosen_with_the_mouse(open_view: OpenView, step: dict[str, Any]) -> None:
    page = open_view(step)
    rows(page).nth(0).click()
    expect_chosen(page, 0)
    expect(page.locator(".nbdist-parts-title").first).to_contain_text(
        "showing all-reduce along model"
    )
    expect_groups(page, HALVES)
    page.locator("[data-device='1:5']").hover()
    expect_cards(page, "data-same", "1:4", "1:6", "1:7")
    expect_cards(page, "data-apart", *FIRST)
    expect(page.get_by_role("region", name="Device")).to_contain_text(
        "exchangeswith p1 · d0, p1 · d2, p1 · d3"
    )
    rows(page).nth(2).click()
    expect_chosen(page, 2)
    expect_groups(page, PAIRS)
    # Once more lets go of it.
    rows(page).nth(2).click()
    expect_chosen(page)
    expect_groups(page, {"4 MB of 16 GB": (*FIRST, *SECOND)})


def test_a_line_chooses_all_of_its_collectives(open_view: OpenView, step: dict[str, Any]) -> None:
    page = open_view(step)
    rows(page).nth(2).get_by_role("button", name="programs.py:109").click()
    expect_chosen(page, 0, 2)
    expect(page.locator(".nbdist-page-left")).to_contain_text(
        "several groups: choose one collective to see them"
    )
    page.locator("[data-device='0:1']").hover()
    expect_cards(page, "data-same", "0:0", "0:2", "0:3", "1:5")


def test_a_collective_is_chosen_with_the_keyboard(
    open_view: OpenView, step: dict[str, Any]
) -> None:
    page = open_view(step)
    grid = page.get_by_role("grid", name="Collectives")
    said = page.locator(".nbdist-parts-hidden[role=status]")
    grid.focus()
    page.keyboard.press("ArrowDown")
    expect_chosen(page, 0)
    expect(said).to_have_text(
        "all-reduce along model, 32 KB per device, 6 times, forward, programs.py:109; 2 groups of 4 devices"
    )
    page.keyboard.press("End")
    expect_chosen(page, 3)
    expect(said).to_contain_text("all-reduce along data, 4 B per device, once, forward")
    page.keyboard.press("ArrowUp")
    expect_chosen(page, 2)
    active = rows(page).nth(2).get_attribute("id")
    assert active is not None
    expect(grid).to_have_attribute("aria-activedescendant", active)
    expect_groups(page, PAIRS)
    page.keyboard.press("Enter")
    expect_chosen(page, 0, 2)
    expect(said).to_have_text("2 collectives chosen")
    page.keyboard.press("Space")
    expect_chosen(page, 2)
    page.locator(".nbdist-mesh-mesh").focus()
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("process 0 · device 0")
    expect(said).to_contain_text("exchanges with p1 · d0")
    page.keyboard.press("Escape")
    expect_chosen(page)
    expect(said).to_have_text("No collective is chosen")


def test_a_program_that_does_not_fit_says_by_how_much(open_view: OpenView, golden: Golden) -> None:
    page = open_view(golden("compiled_ring")["snapshot"])
    program = page.get_by_role("region", name="Program")
    expect(program).to_contain_text(
        "does not fit, 79 KB of 58.6 KB on each device 20.4 KB too much"
    )
    bar = program.locator(".nbdist-program-bar").bounding_box()
    limit = program.locator(".nbdist-program-limit").bounding_box()
    assert bar is not None and limit is not None
    share = (limit["x"] + limit["width"] - bar["x"]) / bar["width"]
    assert share == pytest.approx(60_000 / 80_896, abs=0.01)
    rows(page).nth(0).click()
    page.locator("[data-device='0:0']").hover()
    expect(page.get_by_role("region", name="Device")).to_contain_text("sends top0 · d1")
    expect(page.get_by_role("region", name="Device")).to_contain_text("receivesfrom p1 · d3")
    page = open_view(golden("compiled_refused")["snapshot"])
    expect(program).to_contain_text("48.3 GB too much")
    expect(program).to_contain_text("exceeds available HBM (15.75G)")
    expect(page.get_by_role("grid", name="Collectives")).to_be_hidden()
    expect(program).not_to_contain_text("exchange nothing")


@pytest.mark.parametrize("share", [0.02, 0.98], ids=["low", "high"])
def test_the_figure_of_the_limit_is_within_the_bar(
    open_view: OpenView, golden: Golden, share: float
) -> None:
    snapshot = golden("compiled_ring")["snapshot"]
    snapshot["program"]["limit"] = round(snapshot["program"]["needed"] * share)
    page = open_view(snapshot)
    bar = page.locator(".nbdist-program-bar").bounding_box()
    figure = page.locator(".nbdist-program-limit span").bounding_box()
    assert bar is not None and figure is not None
    assert figure["x"] >= bar["x"] - 2
    assert figure["x"] + figure["width"] <= bar["x"] + bar["width"] + 2


def test_what_nobody_asked_for_is_marked(open_view: OpenView, golden: Golden) -> None:
    page = open_view(golden("compiled_moved")["snapshot"])
    expect(rows(page)).to_have_count(9)
    expect(rows(page).filter(has_text="all-gather *")).to_have_count(4)
    expect(page.locator(".nbdist-program-collectives tr[data-resharding]")).to_have_count(4)
    expect(page.get_by_role("region", name="Program")).to_contain_text("* inserted by the compiler")


def test_the_groups_are_shown_on_the_torus_as_well(
    open_view: OpenView, step: dict[str, Any]
) -> None:
    page = open_view(step)
    rows(page).nth(0).click()
    page.get_by_role("tab", name="torus x=2 × y=4").click()
    expect_groups(page, HALVES)
    expect(page.locator(".nbdist-page-left")).to_contain_text("no dimension wraps around")
    for label in ("x 0", "x 1", "y 0", "y 3"):
        expect(page.locator(".nbdist-mesh-axis", has_text=label)).to_have_count(1)
