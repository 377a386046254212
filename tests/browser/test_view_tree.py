"""The tree of arrays in a view on a page of its own."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from conftest import OpenView
from playwright.sync_api import Locator, Page, expect
from viewpage import row_of

Golden = Callable[[str], dict[str, Any]]

ALIKE = "model.blocks[0–11]"


def tree(page: Page) -> Locator:
    return page.get_by_role("tree", name="Arrays")


def row(page: Page, path: str) -> Locator:
    """The row of an array or a branch, by its whole path."""
    return row_of(tree(page), path)


def at(page: Page) -> str:
    """What the row the keyboard is at is called."""
    id_ = tree(page).get_attribute("aria-activedescendant")
    return page.locator(f"#{id_}").get_attribute("aria-description") or ""


def is_open(page: Page, path: str, wanted: bool) -> None:
    expect(row(page, path)).to_have_attribute("aria-expanded", "true" if wanted else "false")


def test_a_branch_says_what_is_in_it(open_view: OpenView, golden: Golden) -> None:
    page = open_view(golden("transformer")["snapshot"])
    root = row(page, "model")
    expect(root).to_have_accessible_description(
        "model, 40 arrays, 18.9 MB per device, "
        "1 large array is replicated on every device of the mesh"
    )
    alike = row(page, ALIKE)
    expect(alike.locator(".nbdist-lists-about")).to_have_text("×12 identical ▸ show all")
    expect(alike.locator(".nbdist-lists-bytes")).to_have_text("6 MB")
    expect(alike.locator(".nbdist-lists-name")).to_have_text("[0–11]")
    expect(alike.locator(".nbdist-lists-name")).to_have_attribute("title", ALIKE)
    leaf = row(page, "model.blocks[0].mlp.kernel")
    for name, value in {"level": 5, "setsize": 2, "posinset": 1, "selected": "false"}.items():
        expect(leaf).to_have_attribute(f"aria-{name}", str(value))
    expect(leaf.locator(".nbdist-lists-name")).to_have_text(".kernel")
    tree(page).focus()
    page.keyboard.press("End")
    expect(row(page, "loss")).to_have_attribute("aria-level", "1")


def test_totals_are_the_least_where_arrays_are_left_out(
    open_view: OpenView, golden: Golden
) -> None:
    page = open_view({**golden("transformer")["snapshot"], "arrays_omitted": 3}, width=320)
    expect(row(page, "model").locator(".nbdist-lists-bytes")).to_have_text("≥ 18.9 MB")


def test_branches_open_and_close_by_the_mouse_and_stay_so(
    open_view: OpenView, golden: Golden
) -> None:
    snapshot = golden("transformer")["snapshot"]
    page = open_view(snapshot)
    row(page, "model").click()
    is_open(page, "model", False)
    expect(row(page, "model.blocks")).to_have_count(0)
    expect(row(page, "model")).to_have_attribute("data-holds", "")
    # The picture stays, and so does what is closed when arrays come and go.
    expect(page.locator(".nbdist-array-path")).to_have_text("model.head.kernel")
    for arrays in (snapshot["arrays"][1:], [copy.deepcopy(one) for one in snapshot["arrays"]]):
        page.evaluate("arrays => page.change({arrays})", arrays)
        expect(page.get_by_role("searchbox")).to_have_attribute(
            "placeholder", f"Find among {len(arrays)} arrays"
        )
        is_open(page, "model", False)
    row(page, "model").click()
    is_open(page, "model", True)
    row(page, ALIKE).locator(".nbdist-lists-name").click()
    is_open(page, ALIKE, False)


def test_layers_that_are_alike_can_be_seen_each(open_view: OpenView, golden: Golden) -> None:
    page = open_view(golden("transformer")["snapshot"])
    alike = row(page, ALIKE).locator(".nbdist-lists-show-all")
    alike.click()
    expect(row(page, "model.blocks[0]")).to_have_attribute("aria-setsize", "12")
    row(page, "model.blocks[7]").click()
    row(page, "model.blocks[7].qkv.kernel").click()
    expect(page.locator(".nbdist-array-path")).to_have_text("model.blocks[7].qkv.kernel")
    alike.click()
    expect(row(page, "model.blocks[7]")).to_have_count(0)
    expect(row(page, "model.blocks[0].qkv.kernel")).to_be_visible()
    expect(row(page, "model.blocks[0].qkv.kernel")).to_have_accessible_description(
        re.compile(r"one of 12 identical ones$")
    )


def test_the_keyboard_moves_opens_and_picks(open_view: OpenView, golden: Golden) -> None:
    page = open_view(golden("transformer")["snapshot"])
    tree(page).focus()
    for key, wanted in (
        ("Home", "model,"),
        ("ArrowLeft", "model,"),
        ("ArrowDown", "opt.mu.blocks,"),
        ("ArrowUp", "model,"),
        ("ArrowRight", "model,"),
        ("ArrowRight", "model.embed.kernel,"),
        ("ArrowDown", "model.blocks,"),
        ("ArrowRight", f"{ALIKE},"),
        ("ArrowRight", f"{ALIKE},"),
        ("ArrowRight", "model.blocks[0],"),
        (" ", "model.blocks[0],"),
        ("ArrowDown", "model.blocks[0].qkv.kernel,"),
        ("ArrowLeft", "model.blocks[0],"),
        ("ArrowLeft", "model.blocks[0],"),
        ("ArrowLeft", f"{ALIKE},"),
        ("ArrowLeft", f"{ALIKE},"),
        ("ArrowDown", "model.blocks[0].qkv.kernel,"),
        ("End", "loss,"),
        ("PageUp", ""),
    ):
        page.keyboard.press(key)
        assert at(page).startswith(wanted), (key, wanted)
    page.keyboard.press("Home")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".nbdist-array-path")).to_have_text("model.blocks[0].qkv.kernel")
    expect(tree(page).locator("[aria-selected=true]")).to_have_count(1)


def test_a_search_is_flat_and_shows_whole_paths(open_view: OpenView, golden: Golden) -> None:
    page = open_view(golden("transformer")["snapshot"])
    find = page.get_by_role("searchbox", name="Find an array")
    find.fill("blocks[7] qkv")
    expect(tree(page).locator(".nbdist-lists-name")).to_have_text(
        ["model.blocks[7].qkv.kernel", "opt.mu.blocks[7].qkv.kernel"]
    )
    expect(tree(page).locator("[aria-expanded]")).to_have_count(0)
    row(page, "opt.mu.blocks[7].qkv.kernel").click()
    # Back in the tree it is in sight, though its layer was one of those that are alike.
    find.fill("")
    picked = row(page, "opt.mu.blocks[7].qkv.kernel")
    expect(picked).to_have_attribute("aria-selected", "true")
    expect(picked).to_be_in_viewport()


@pytest.mark.parametrize(
    ("focus", "shown", "branch"),
    [
        ("model", "model.head.kernel", "model"),
        ("opt", "opt.mu.blocks[0].mlp.kernel", "opt.mu.blocks"),
        ("model.blocks[7].qkv.kernel", "model.blocks[7].qkv.kernel", "model.blocks[7]"),
    ],
)
def test_what_is_in_focus_is_in_sight(
    focus: str, shown: str, branch: str, open_view: OpenView, golden: Golden
) -> None:
    snapshot = golden("transformer")["snapshot"]
    # So many that all branches are closed at first.
    other = snapshot["arrays"][0]
    more = [{**other, "path": f"first.a{number}"} for number in range(60)]
    page = open_view({**snapshot, "arrays": more + snapshot["arrays"]}, query=f"?focus={focus}")
    expect(page.locator(".nbdist-array-path")).to_have_text(shown)
    is_open(page, branch, True)
    is_open(page, "first", False)
    expect(row(page, shown)).to_have_attribute("aria-selected", "true")
    expect(row(page, shown)).to_be_in_viewport()


def test_large_arrays_that_nothing_splits_are_marked(open_view: OpenView, golden: Golden) -> None:
    page = open_view(golden("transformer")["snapshot"])
    mark = page.locator(".nbdist-lists-unsplit")
    expect(row(page, "model.embed.kernel").locator(mark)).to_have_attribute(
        "title",
        "replicated on every device of its mesh: its spec is P(None, None), which splits nothing",
    )
    for path in ("model.head.kernel", "model"):
        expect(row(page, path).locator(mark)).to_have_count(0)
    row(page, "model").click()
    expect(row(page, "model").locator(mark)).to_have_attribute(
        "title", "1 large array is replicated on every device of the mesh"
    )


def test_of_thousands_of_rows_only_those_in_sight_are_made(
    open_view: OpenView, golden: Golden
) -> None:
    snapshot = golden("transformer")["snapshot"]
    one = snapshot["arrays"][0]
    # No two layers alike.
    arrays = [
        {**one, "path": f"m.layers[{number}].{name}", "shape": [number + 1, 4]}
        for number in range(1000)
        for name in ("w", "v")
    ]
    deep = {**one, "path": "t" + "[0].x" * 2000}
    page = open_view({**snapshot, "arrays": [*arrays, deep, {**one, "path": "t.w"}]})
    row(page, "m.layers").click()
    expect(row(page, "m.layers[0]")).to_be_visible()
    assert tree(page).get_by_role("treeitem").count() < 60
    tree(page).focus()
    page.keyboard.press("End")
    assert at(page).startswith("t.w,")
    page.evaluate("arrays => page.change({arrays})", json.loads(json.dumps(arrays)))
    expect(row(page, "t.w")).to_have_count(0)
    page.keyboard.press("Home")
    is_open(page, "m.layers", True)
