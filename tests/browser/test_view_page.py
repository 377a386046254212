"""The view on a page of its own, fed with every golden snapshot."""

from __future__ import annotations

import copy
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenView
from playwright.sync_api import Locator, Page, expect
from viewpage import row_of, set_theme

from tests.places import GOLDEN
from tests.variants import cases


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return content


NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))
WITH_ARRAYS = [n for n in NAMES if read(n)["expected"] and n not in ("keras_model", "transformer")]
VARIANTS = [(960, False), (960, True), (320, False), (320, True)]

CUT_TEXT = """() => {
  // Text that is not wholly inside everything that clips it, left to right and in its row.
  const root = document.querySelector('.nbdist');
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const cut = [];
  const inside = (rect, box) => rect.left >= box.left - 0.6 && rect.right <= box.right + 0.6;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    const unseen = '.nbdist-parts-hidden, [hidden], details:not([open]) > :not(summary)';
    if (!node.textContent.trim() || parent.closest(unseen)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const clips = [root];
    for (let up = parent; up && up !== root; up = up.parentElement) {
      if (getComputedStyle(up).overflowX !== 'visible') clips.push(up);
    }
    const row = parent.closest('.nbdist-lists-spacer > .nbdist-lists-row');
    for (const rect of range.getClientRects()) {
      if (!rect.width) continue;
      const box = row?.getBoundingClientRect();
      const low = box && (rect.bottom > box.bottom + 0.6 || rect.top < box.top - 0.6);
      if (low || clips.some(clip => !inside(rect, clip.getBoundingClientRect()))) {
        cut.push(`${node.textContent} in ${parent.className}`);
        break;
      }
    }
  }
  return cut;
}"""

SHORTENED = """() => [...document.querySelectorAll('.nbdist-lists-name')].map(node => [
  node.textContent, node.getAttribute('title')])"""

TABLE = """() => Object.fromEntries([...document.querySelectorAll('.nbdist-device-table tbody tr')].map(
  row => [row.dataset.device, row.children[3].textContent]))"""

CARDS = """() => [...document.querySelectorAll('.nbdist-mesh-card[data-shard]')].map(card => {
  const style = getComputedStyle(card);
  return {
    device: card.dataset.device,
    holds: card.querySelector('.nbdist-mesh-holds').textContent,
    look: [style.backgroundColor, style.backgroundImage].join(),
  };
})"""


def slices_text(slices: list[list[int]]) -> str:
    return f"[{', '.join(f'{start}:{stop}' for start, stop in slices)}]"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_wide_or_narrow_light_or_dark(
    name: str, open_view: OpenView, shots: Path
) -> None:
    snapshot = read(name)["snapshot"]
    # Wide it is opened in the light and narrow in the dark, and changed to the other while it is there.
    for width, first in ((960, False), (320, True)):
        page = open_view(snapshot, width=width, dark=first)
        check_in_both_themes(page, width, first, shots / name)
        if snapshot["models"]:
            open_layout(page)
            expect(
                page.locator(".nbdist-lists-layout .nbdist-lists-box [role=option]").first
            ).to_be_visible()
            check_in_both_themes(page, width, not first, shots / name, part="-layout")


def check_in_both_themes(page: Page, width: int, first: bool, shot: Path, part: str = "") -> None:
    """Nothing is cut, neither in the theme the page has now, dark where `first` is true, nor in the other."""
    for dark in (first, not first):
        set_theme(page, dark=dark)
        theme = "dark" if dark else "light"
        expect(page.locator(".nbdist")).to_have_attribute("data-nbdist-theme", theme)
        picture(page, shot.with_name(f"{shot.name}-{width}-{theme}{part}.png"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        check_texts(page)


def test_what_is_loaded_knows_nothing_of_what_was_in_its_page(open_view: OpenView) -> None:
    pointed = "document.querySelectorAll('.nbdist-mesh-card:hover').length"
    page = open_view(read("tour")["snapshot"])
    page.evaluate("window.mine = localStorage.mine = sessionStorage.mine = 1")
    page.locator(".nbdist-mesh-card").nth(3).click()
    expect(page.locator(".nbdist-device-title")).to_have_text("process 1 · device 1 pinned")
    assert page.evaluate(pointed) == 1
    page = open_view(read("tour")["snapshot"])
    assert page.evaluate(pointed) == 0
    expect(page.locator(".nbdist-device-title")).to_have_count(0)
    assert page.evaluate("[document.activeElement.tagName, scrollX, scrollY]") == ["BODY", 0, 0]
    mine = "[window.mine, localStorage.mine, sessionStorage.mine].map(value => value ?? null)"
    assert page.evaluate(mine) == [None] * 3


def picture(page: Page, path: Path) -> None:
    """Takes one for people to look at, where they have said where: it takes as long as all that is checked."""
    if "NBDIST_SHOTS" in os.environ:
        page.screenshot(path=path, full_page=True)


def check_texts(page: Page) -> None:
    """Nothing is cut, and a name that was shortened says so."""
    assert page.evaluate(CUT_TEXT) == []
    for text, title in page.evaluate(SHORTENED):
        if "…" in text or "~" in text:
            assert title is not None, text
        else:
            assert title is None or title.endswith(text)


@pytest.mark.parametrize("name", [*WITH_ARRAYS, *cases("keras_model", "transformer")])
def test_every_array_is_shown_where_the_framework_says_it_is(
    name: str, open_view: OpenView
) -> None:
    golden = read(name)
    page = open_view(golden["snapshot"])
    page.locator(".nbdist-device-table summary").click()
    page.locator(".nbdist-lists-arrays .nbdist-lists-box").focus()
    page.keyboard.press("Home")
    left = list(golden["expected"])
    while left:
        active = page.locator(".nbdist-lists-row[data-active]")
        while active.get_attribute("aria-expanded") is not None:
            # Opens it, then each of those that are alike, then moves on.
            page.keyboard.press("ArrowRight")
        label = active.get_attribute("aria-description") or ""
        expected = next(one for one in left if label.startswith(f"{one['path']},"))
        left.remove(expected)
        if active.get_attribute("aria-selected") != "true":
            page.keyboard.press("Enter")
        # Another version of the same path may have been picked before.
        expect(active).to_have_attribute("aria-selected", "true")
        expect(page.locator(".nbdist-array-path")).to_have_text(expected["path"])
        check_slices(page, golden["snapshot"], expected)
        page.keyboard.press("ArrowDown")


def check_slices(page: Page, snapshot: dict[str, Any], expected: dict[str, Any]) -> None:
    lost = {p["process_id"] for p in snapshot["processes"] if p["state"] == "lost"}
    page.wait_for_function(
        "path => document.querySelector('.nbdist-device-table caption').textContent.endsWith(path)",
        arg=expected["path"],
    )
    for device, shown in page.evaluate(TABLE).items():
        if int(device.split(":")[0]) in lost:
            assert shown.startswith("lost")
        elif device in expected["slices"]:
            assert shown.startswith(slices_text(expected["slices"][device])), (device, shown)
            assert ("partial sum " in shown) == expected["partial"]
        else:
            assert shown == "not here", device
    pieces = {
        device: number
        for number, piece in enumerate(expected["pieces"])
        for device in piece["devices"]
    }
    looks: dict[str, set[int]] = {}
    for card in page.evaluate(CARDS):
        assert card["holds"] == slices_text(expected["slices"][card["device"]])
        looks.setdefault(card["look"], set()).add(pieces[card["device"]])
    assert all(len(numbers) == 1 for numbers in looks.values())
    assert len(looks) == len({number for numbers in looks.values() for number in numbers})


def test_the_mesh_is_a_grid_with_names_for_screen_readers(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    grid = page.get_by_role("grid", name="Devices of data=4 × model=2")
    expect(grid.get_by_role("row")).to_have_count(5)
    expect(grid.get_by_role("columnheader")).to_have_text(["model 0", "model 1"])
    expect(grid.get_by_role("gridcell").nth(2)).to_have_accessible_name(
        "process 1 · device 0 h1 [128:256, 0:128]"
    )
    expect(grid.get_by_role("gridcell").nth(2)).to_have_accessible_description(
        "data 1, model 0, shard of params.dense1.kernel, 16.4 MB"
    )
    expect(page.get_by_role("tree", name="Arrays").get_by_role("treeitem")).to_have_count(10)
    expect(row_of(page, "embedding")).to_have_accessible_description(
        "embedding, 16 MB per device, 8 replicas of each shard, "
        "replicated on every device of its mesh: its spec is P(None, None), which splits nothing"
    )
    expect(page.get_by_role("searchbox", name="Find an array")).to_be_visible()
    expect(page.get_by_role("listitem", name="process 2, running")).to_be_visible()


def test_a_choice_is_announced_once_and_new_data_is_not(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    live = page.get_by_role("status")
    expect(live).to_have_text("")
    page.locator(".nbdist-mesh-mesh").focus()
    page.keyboard.press("ArrowRight")
    expect(live).to_contain_text("process 0 · device 0, on h1, [0:128, 0:128], data 0, model 0")
    text = live.inner_text()
    page.evaluate("page.change({state: 'idle'})")
    expect(page.locator(".nbdist-session-state")).to_have_text("idle")
    assert live.inner_text() == text
    row_of(page, "batch").click()
    expect(live).to_have_text("Showing batch")


TYPED_AT_ONCE = """
path => {
  const input = document.querySelector('.nbdist-lists-find');
  input.focus();
  input.value = path;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  for (const key of ['ArrowDown', 'Enter']) {
    const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
    document.activeElement.dispatchEvent(event);
  }
}
"""
"""A search, and the keys that choose what it finds, before the browser has drawn anything."""


def test_keys_that_are_faster_than_the_display_choose_what_was_searched(
    open_view: OpenView,
) -> None:
    page = open_view(read("several_meshes")["snapshot"])
    page.evaluate(TYPED_AT_ONCE, "turned")
    expect(page.locator(".nbdist-array-path")).to_have_text("state.turned")


def test_the_whole_view_can_be_used_with_the_keyboard(open_view: OpenView) -> None:
    page = open_view(read("several_meshes")["snapshot"], dark=True)
    active = "document.activeElement.className || document.activeElement.tagName"
    stops = []
    for _ in range(10):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(active))
    assert stops == [
        *("nbdist-parts-fold-head", "nbdist-parts-fold-head", "nbdist-parts-button"),
        *("nbdist-mesh-mesh", "nbdist-parts-button", "SUMMARY", "nbdist-parts-fold-head"),
        *("nbdist-lists-find", "nbdist-lists-sort", "nbdist-lists-box"),
    ]
    page.locator(".nbdist-page-left [role=tab][aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".nbdist-page-left [role=tab][aria-selected=true]")).to_have_text(
        "data=4 × model=2 explicit"
    )
    page.keyboard.press("Tab")
    title = page.locator(".nbdist-device-title")
    for key, wanted in (
        ("ArrowDown", "process 0 · device 0"),
        ("ArrowDown", "process 1 · device 0"),
        ("End", "process 1 · device 1"),
        ("Control+End", "process 3 · device 1"),
        ("Home", "process 3 · device 0"),
        ("ArrowUp", "process 2 · device 0"),
        ("Enter", "process 2 · device 0 pinned"),
    ):
        page.keyboard.press(key)
        expect(title).to_have_text(wanted)
    described = page.locator(".nbdist-mesh-mesh").get_attribute("aria-activedescendant")
    expect(page.locator(f"#{described}")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(title).to_have_count(0)
    page.locator(".nbdist-mesh-mesh").focus()
    page.keyboard.press("/")
    page.keyboard.type("turned")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".nbdist-array-path")).to_have_text("state.turned")
    expect(page.locator(".nbdist-page-left [role=tab][aria-selected=true]")).to_have_text(
        "data=4 × model=2 auto"
    )


SUPPRESSED = """() => {
  // As Lumino does: in the capture phase on the document, it leaves keys below this attribute alone.
  window.keys = [];
  document.addEventListener('keydown', event => {
    if (!event.target.closest('[data-lm-suppress-shortcuts]')) keys.push(event.key);
  }, true);
}"""


def test_shortcuts_of_the_page_pass_and_the_notebook_s_own_letters_do_not(
    open_view: OpenView,
) -> None:
    page = open_view(read("tour")["snapshot"])
    page.evaluate(SUPPRESSED)
    page.locator(".nbdist-mesh-mesh").focus()
    for key in ("ArrowRight", "d", "x", "Control+Home", "/", "a", "Control+a"):
        page.keyboard.press(key)
    assert [key for key in page.evaluate("keys") if key != "Control"] == []
    for key in ("Control+s", "Alt+ArrowLeft", "Shift+Enter", "F1"):
        page.keyboard.press(key)
    passed = [key for key in page.evaluate("keys") if key not in ("Control", "Alt", "Shift")]
    assert passed == ["s", "ArrowLeft", "Enter", "F1"]


def test_escape_gives_the_focus_back_to_the_notebook(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    page.evaluate(
        """() => {
          const panel = document.createElement('div');
          panel.className = 'jp-NotebookPanel';
          panel.innerHTML = '<div class="jp-Notebook" tabindex="-1"></div>';
          document.body.append(panel);
        }"""
    )
    page.locator(".nbdist-mesh-card").first.click()
    page.mouse.move(0, 0)
    page.locator(".nbdist-mesh-mesh").focus()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "jp-Notebook"
    expect(page.locator(".nbdist-device-title")).to_have_count(0)


def test_a_start_is_a_strip_that_opens_and_closes_in_its_place(open_view: OpenView) -> None:
    page = open_view(None, query="?form=strip")
    page.evaluate("snapshot => page.show(snapshot)", read("tour")["snapshot"])
    strip = page.get_by_role("region", name="Session in brief")
    expect(strip).to_contain_text("Next: start a %%dist cell")
    expect(strip.locator(".nbdist-session-square")).to_have_count(8)
    box = page.locator(".nbdist").bounding_box()
    assert box is not None and box["height"] < 80
    mesh = page.locator(".nbdist-mesh-mesh")
    expect(mesh).to_be_hidden()
    strip.locator(".nbdist-session-strip-chip").first.click()
    expect(mesh).to_be_visible()
    toggle = strip.get_by_role("button")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    toggle.click()
    expect(mesh).to_be_hidden()
    page.evaluate("snapshot => page.show(snapshot)", read("failed")["snapshot"])
    expect(strip).to_contain_text("Process 1 raised")
    expect(strip.get_by_text("Next:")).to_be_hidden()
    expect(strip.locator("[data-trouble].nbdist-session-strip-chip")).to_have_count(2)


def test_nothing_is_left_free_for_what_is_not_there(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    before = page.locator(".nbdist").bounding_box()
    page.locator(".nbdist-mesh-card").nth(2).hover()
    expect(page.locator(".nbdist-device-title")).to_be_visible()
    # What is pointed at lies over the page, and moves nothing.
    assert page.locator(".nbdist").bounding_box() == before
    hint = page.locator(".nbdist-device-place").bounding_box()
    page.mouse.move(0, 0)
    hint = page.locator(".nbdist-device-place").bounding_box()
    assert hint is not None and hint["height"] < 40


def test_sections_fold_and_arrays_are_sorted(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    for title, inside in (
        ("Processes", ".nbdist-session-process"),
        ("Notes", ".nbdist-session-notice"),
        ("Mesh", ".nbdist-mesh-card"),
        ("Arrays", ".nbdist-lists-find"),
    ):
        head = page.get_by_role("button", name=title, exact=True)
        head.click()
        expect(head).to_have_attribute("aria-expanded", "false")
        expect(page.locator(inside).first).to_be_hidden()
        head.click()
        expect(page.locator(inside).first).to_be_visible()
    order = page.get_by_role("combobox", name="Order of the arrays")
    first = page.locator(".nbdist-lists-box .nbdist-lists-name").first
    for chosen, path in (
        ("by name", "batch"),
        ("by bytes", "embedding"),
        ("by replicas", "embedding"),
        ("as in your code", "params"),
    ):
        order.select_option(chosen)
        expect(first).to_have_text(path)


def test_a_click_on_a_process_asks_for_its_cell_and_line(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    page.evaluate(
        "document.addEventListener('nbdist:go-to', event => { window.asked = event.detail; })"
    )
    page.locator(".nbdist-session-process").nth(1).click()
    process = read("tour")["snapshot"]["processes"][1]
    assert page.evaluate("asked") == {"cell": process["cell"], "line": process["line"]}
    page.evaluate("snapshot => page.show(snapshot)", read("transformer")["snapshot"])
    expect(page.locator(".nbdist-session-process").first).to_be_disabled()


@pytest.mark.parametrize(
    ("width", "percent"), cases((250, 200), (250, 150), (1280, 150), (1920, 100), (1920, 150))
)
@pytest.mark.parametrize("name", ["tour", "failed", "keras_model", "transformer", "pieces_256"])
def test_letters_of_every_size_are_shown_whole(
    name: str, width: int, percent: int, open_view: OpenView, shots: Path
) -> None:
    page = open_view(read(name)["snapshot"], width=width)
    size = f"{13 * percent / 100}px"
    page.evaluate(
        "size => document.documentElement.style.setProperty('--jp-ui-font-size1', size)", size
    )
    page.wait_for_timeout(300)
    picture(page, shots / f"letters-{name}-{width}-{percent}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_TEXT) == []


HTML = "<img src=x onerror='window.ran = true'><script>window.ran = true</script>"


TALLEST = (
    "selector => Math.max(...Array.from(document.querySelectorAll(selector), n => n.clientHeight))"
)


@pytest.mark.parametrize(
    "nonsense",
    [
        HTML,
        "\x1b[31mred\x1b[0m\x1b[2J",
        "x" * 10_000,
        "word " * 2_000,
        "\u202eevil\u202c שלום עולם مرحبا",
        "a\nb\tc\x00\x07",
    ],
    ids=["html", "ansi", "one long word", "many words", "right to left", "control characters"],
)
@pytest.mark.parametrize("width", cases(250, 1280))
def test_texts_of_others_are_shown_as_text_and_spoil_nothing(
    nonsense: str, width: int, open_view: OpenView, shots: Path
) -> None:
    snapshot = copy.deepcopy(read("failed")["snapshot"])
    for process in snapshot["processes"]:
        process.update(host=nonsense, source=nonsense)
    snapshot["processes"][1]["error"] = f"ValueError: {nonsense}"
    for device in snapshot["devices"]:
        device["kind"] = nonsense
    snapshot["arrays"][0]["path"] = f"params['{nonsense}']"
    snapshot["notices"][0].update(title=nonsense, text=nonsense, do=nonsense, details=[nonsense])
    page = open_view(snapshot, width=width)
    expect(page.locator(".nbdist-session-process")).to_have_count(4)
    page.locator(".nbdist-mesh-card").first.click()
    page.wait_for_timeout(200)
    if len(nonsense) > 9_000:
        assert 0 < page.evaluate(TALLEST, "[data-long]") < 200, "a long text scrolls in a few lines"
        assert 0 < page.evaluate(TALLEST, ".nbdist-lists-row") < 300
    name = re.sub(r"\W+", "-", nonsense[:12]).strip("-")
    picture(page, shots / f"nonsense-{name}-{width}.png")
    assert page.evaluate("window.ran") is None
    assert page.locator(".nbdist :is(img, script)").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    letters = ["".join(filter(str.isalnum, one)) for one in (nonsense, page.inner_text(".nbdist"))]
    assert letters[0] in letters[1], "all of it is shown"
    expect(page.get_by_role("searchbox", name="Find an array")).to_be_visible()


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("problem", ["Problem"]),
        ("processes", ["Processes"]),
        ("mesh", ["Mesh"]),
        ("arrays", ["Arrays"]),
        ("view", ["Processes", "Problem", "Mesh", "Arrays"]),
    ],
)
def test_a_section_can_be_shown_alone(
    form: str, shown: list[str], open_view: OpenView, shots: Path
) -> None:
    page = open_view(read("failed")["snapshot"], query=f"?form={form}")
    heads = page.locator(".nbdist-parts-fold-head").filter(visible=True)
    expect(heads).to_have_text(shown)
    expect(page.locator(".nbdist-session-bar")).to_contain_text("processes")
    calm = page.get_by_text("No problem.")
    expect(calm).to_be_hidden()
    picture(page, shots / f"section-{form}.png")
    page.evaluate("page.change({notices: [], state: 'idle'})")
    expect(calm).to_be_visible(visible=form == "problem")


def test_copies_of_the_piece_under_the_cursor_are_marked(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"], query="?focus=batch")
    page.locator(".nbdist-mesh-card").nth(2).click()
    expect(page.locator(".nbdist-mesh-card[data-same]")).to_have_count(2)
    expect(page.locator(".nbdist-device-facts")).to_contain_text("replicas")
    row_of(page, "params.dense1.kernel").click()
    expect(page.locator(".nbdist-mesh-card[data-same]")).to_have_count(1)


def test_partial_sums_are_not_called_copies(open_view: OpenView) -> None:
    page = open_view(read("unreduced")["snapshot"], query="?focus=gradient")
    expect(page.locator(".nbdist-array-caption")).to_contain_text(
        "2 shards of 8 × 8, 256 B each, in 4 partial sums, still to be added: not replicas"
    )
    page.locator(".nbdist-mesh-card").first.click()
    expect(page.locator(".nbdist-device-facts")).to_contain_text("to be added to 3 others")
    expect(page.locator(".nbdist-device-facts")).not_to_contain_text("replicas")


def test_what_processes_disagree_on_is_listed_with_who_says_what(open_view: OpenView) -> None:
    page = open_view(read("out_of_step")["snapshot"], width=320)
    expect(page.locator(".nbdist-session-state")).to_have_text("out of step")
    expect(page.locator(".nbdist-session-state")).to_have_attribute("data-trouble", "")
    notice = page.locator(".nbdist-session-notice", has_text="Processes disagree on array x")
    expect(notice.locator("li")).to_have_text(
        ["processes 0, 1 f32[64] P('data')", "processes 2, 3 missing"]
    )
    expect(page.locator(".nbdist-parts-badge")).to_have_text(["p0, 1, 3", "p2", "p0, 1"])


def test_updates_keep_the_elements_and_what_was_chosen(open_view: OpenView) -> None:
    snapshot = read("tour")["snapshot"]
    page = open_view(snapshot)
    row_of(page, "batch").click()
    page.locator(".nbdist-mesh-card").nth(3).click()
    page.evaluate(
        "document.querySelectorAll('.nbdist-mesh-card, .nbdist-session-process').forEach(n => n.mine = 1)"
    )
    processes = copy.deepcopy(snapshot["processes"])
    for process in processes:
        process["line"] = 99
    page.evaluate("processes => page.change({processes})", processes)
    expect(page.locator(".nbdist-session-what").first).to_contain_text("line 99")
    kept = "[...document.querySelectorAll('.nbdist-mesh-card, .nbdist-session-process')].every(n => n.mine)"
    assert page.evaluate(kept)
    expect(page.locator(".nbdist-array-path")).to_have_text("batch")
    expect(page.locator(".nbdist-device-title")).to_have_text("process 1 · device 1 pinned")


def test_a_missed_frame_is_asked_for_and_changes_nothing(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    assert page.evaluate("page.sent") == [{"type": "hello"}]
    time.sleep(1.1)
    frame = {"type": "frame", "stream": "page", "sequence": 9, "base": 8, "age": 0}
    page.evaluate("frame => page.receive(frame)", {**frame, "snapshot": {"state": "stuck"}})
    assert page.evaluate("page.sent.length") == 2
    expect(page.locator(".nbdist-session-state")).to_have_text("running")


def test_seconds_until_a_session_recovers_are_counted_down(open_view: OpenView) -> None:
    snapshot = read("failed")["snapshot"]
    page = open_view({**snapshot, "recovers_at": snapshot["time"] + 60})
    state = page.locator(".nbdist-session-state")
    expect(state).to_have_text(re.compile(r"^recovering in \d+ s$"))
    first = state.inner_text()
    expect(state).not_to_have_text(first)
    seconds = [int(re.sub(r"\D", "", text)) for text in (first, state.inner_text())]
    assert 60 >= seconds[0] > seconds[1] > 0
    page.evaluate("at => page.change({recovers_at: at})", snapshot["time"] - 1)
    expect(state).to_have_text("recovering")
    page.evaluate("page.change({state: 'idle', recovers_at: null})")
    expect(state).to_have_text("idle")


def test_another_version_is_said_and_not_drawn(open_view: OpenView) -> None:
    snapshot = {**read("tour")["snapshot"], "version": 999}
    page = open_view(None)
    page.evaluate("snapshot => page.show(snapshot)", snapshot)
    expect(page.locator(".nbdist-page-waiting")).to_contain_text("different versions of nbdist")


def test_old_data_is_called_old(open_view: OpenView) -> None:
    page = open_view(None)
    frame = {"type": "frame", "stream": "page", "sequence": 1, "base": None, "age": 3000}
    page.evaluate("frame => page.receive(frame)", {**frame, "snapshot": read("tour")["snapshot"]})
    # It grows meanwhile, on a busy machine by more than a second.
    expect(page.locator(".nbdist-session-age")).to_have_text(re.compile(r"^no news for 5\d min"))


def test_the_theme_is_followed(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    card = page.locator(".nbdist-mesh-card").first
    light = card.evaluate("node => getComputedStyle(node).backgroundColor")
    page.evaluate("document.body.className = 'lab-dark'")
    expect(page.locator(".nbdist")).to_have_attribute("data-nbdist-theme", "dark")
    page.wait_for_function(
        "light => getComputedStyle(document.querySelector('.nbdist-mesh-card')).backgroundColor !== light",
        arg=light,
    )


def test_everything_grows_with_the_text_of_the_theme(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"])
    picture_of_the_array = page.locator(".nbdist-array-picture")
    size = "node => [node.offsetWidth, node.offsetHeight, getComputedStyle(node).borderRadius]"
    assert picture_of_the_array.evaluate(size) == [148, 96, "4px"]
    larger = "document.documentElement.style.setProperty('--jp-ui-font-size1', '26px')"
    page.evaluate(larger)
    # A canvas is drawn anew for it, and as narrow as this the list is below the mesh.
    expect(picture_of_the_array).to_have_js_property("width", 2 * 148)
    assert picture_of_the_array.evaluate(size) == [2 * 148, 2 * 96, "8px"]
    expect(page.locator(".nbdist-page-side")).to_have_css("position", "static")
    check_texts(page)
    row = row_of(page, "batch")
    row.scroll_into_view_if_needed()
    row.click()
    expect(row).to_have_attribute("aria-selected", "true")


def test_a_page_without_a_theme_of_its_own_gets_the_system_s(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"], dark=True)
    page.evaluate("document.body.className = ''")
    expect(page.locator(".nbdist")).to_have_attribute("data-nbdist-theme", "dark")


def test_the_still_picture_is_hidden_from_the_first_data_until_the_view_goes(
    open_view: OpenView,
) -> None:
    page = open_view(None, query="?view_id=v1")
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p data-nbdist-view=v1>still</p>')"
    )
    still = page.locator("[data-nbdist-view]")
    expect(still).to_be_visible()
    expect(page.locator(".nbdist")).to_be_hidden()
    page.evaluate("snapshot => page.show(snapshot)", read("tour")["snapshot"])
    expect(still).to_be_hidden()
    expect(page.locator(".nbdist")).to_be_visible()
    page.evaluate("page.dispose(); page.dispose()")
    expect(still).to_be_visible()
    expect(page.locator(".nbdist")).to_have_count(0)
    assert page.evaluate("page.listeners.size") == 0
    assert page.evaluate("document.head.querySelectorAll('style').length") == 1


def drawings(page: Page, do: Callable[[], None]) -> int:
    """How often the first line changes while `do` runs."""
    page.evaluate(
        """() => {
          window.seen = new Set();
          const state = document.querySelector('.nbdist-session-what');
          new MutationObserver(() => seen.add(state.textContent)).observe(
            state, {subtree: true, childList: true, characterData: true});
        }"""
    )
    do()
    return int(page.evaluate("seen.size"))


def push_lines(page: Page, count: int) -> Callable[[], None]:
    """Sends `count` frames, ten a second, each with another line."""
    processes = read("tour")["snapshot"]["processes"]

    def push() -> None:
        for line in range(100, 100 + count):
            part = [{**process, "line": line} for process in processes]
            page.evaluate("processes => page.change({processes})", part)
            time.sleep(0.1)

    return push


def test_reduced_motion_gets_one_drawing_a_second(open_view: OpenView) -> None:
    page = open_view(read("tour")["snapshot"], reduced_motion="reduce")
    assert drawings(page, push_lines(page, 20)) <= 4
    page = open_view(read("tour")["snapshot"])
    assert drawings(page, push_lines(page, 20)) >= 8


def test_out_of_sight_nothing_is_drawn_and_back_in_sight_the_newest_is(
    open_view: OpenView,
) -> None:
    page = open_view(read("tour")["snapshot"])
    page.evaluate("document.getElementById('view').style.display = 'none'")
    time.sleep(0.2)
    assert drawings(page, push_lines(page, 5)) == 0
    page.evaluate("document.getElementById('view').style.display = ''")
    expect(page.locator(".nbdist-session-what").first).to_contain_text("line 104")


def test_a_large_mesh_is_drawn_as_tiles_that_answer_pointer_and_keyboard(
    open_view: OpenView,
) -> None:
    page = open_view(read("pieces_256")["snapshot"])
    mesh = page.get_by_role("application", name="Devices of data=16 × model=16")
    expect(mesh.locator("canvas")).to_have_count(2)
    box = page.locator(".nbdist-mesh-rings").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + box["height"] - 8)
    expect(page.locator(".nbdist-device-title")).to_have_text("process 31 · device 7")
    page.mouse.move(5, 5)
    expect(page.locator(".nbdist-device-title")).to_have_count(0)
    mesh.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".nbdist-device-title")).to_have_text("process 2 · device 0")
    expect(page.get_by_role("status")).to_contain_text("data 1, model 0")
    page.locator(".nbdist-device-table summary").click()
    expect(page.locator(".nbdist-device-table tbody tr")).to_have_count(256)


def with_long_names() -> dict[str, Any]:
    """The tour with names as long as real clusters and models have them."""
    snapshot = copy.deepcopy(read("failed")["snapshot"])
    for number, process in enumerate(snapshot["processes"]):
        process["host"] = f"training-cluster-europe-west4-b-node-{number:05}.internal.example.com"
        process["cell"], process["line"] = 31, 7
        process["source"] = "x = " + " + ".join(f"function_{i}(argument)" for i in range(20))
    snapshot["processes"][1]["error"] = "ValueError: " + "an_unbroken_message_" * 12
    names = {"data": "fully_sharded_data_parallel_axis", "model": "tensor_model_parallel_axis"}
    for mesh in snapshot["meshes"]:
        for axis in mesh["axes"]:
            axis["name"] = names[axis["name"]]
    for array in snapshot["arrays"]:
        array["path"] = "state.params['the_whole_transformer_decoder']" * 4 + array["path"]
        array["sharding"]["spec"] = [
            [names[name] for name in dimension] for dimension in array["sharding"]["spec"]
        ]
    for notice in snapshot["notices"]:
        notice["text"] += " /a/path/" + "without/any/place/to/break/" * 9
    return dict(snapshot)


@pytest.mark.parametrize("width", [260, 320, 640, 700, 960])
def test_names_of_any_length_are_not_cut(width: int, open_view: OpenView, shots: Path) -> None:
    page = open_view(with_long_names(), width=width)
    page.locator(".nbdist-mesh-card, .nbdist-mesh-rings").first.click(position={"x": 20, "y": 9})
    picture(page, shots / f"any-length-{width}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    check_texts(page)
    page.locator(".nbdist-lists-find").fill("state")
    expect(page.locator(".nbdist-lists-box [aria-expanded]")).to_have_count(0)
    check_texts(page)
    names = [text for text, _ in page.evaluate(SHORTENED)]
    assert len(set(names)) == len(names)


def test_k4_the_distribution_is_shown_with_its_mesh_batch_axis_and_rules(
    open_view: OpenView,
) -> None:
    page = open_view(read("keras_model")["snapshot"])
    section = page.get_by_role("region", name="Distribution")
    expect(section.locator(".nbdist-session-distribution-head")).to_have_text(
        "distributionModelParallel"
    )
    expect(section.locator(".nbdist-session-distribution-facts span")).to_have_text(
        [
            "mesh batch=2 × model=2",
            "batches split over batch",
            "auto-sharding off",
            "global batch 64",
        ]
    )
    expect(section.get_by_role("table", name="Layout rules").locator("tbody tr")).to_have_text(
        [
            ".*dense.*/kernelP(None, 'model')",
            ".*dense.*/biasP('model')",
            ".*attention.*/query/kernelP(None, 'model', None)matches nothing",
        ]
    )


def open_layout(page: Page) -> Locator:
    """Turns to the layout of the model, and answers its part of the view."""
    page.get_by_role("tab", name="layout").click()
    return page.get_by_role("region", name="Layout of a model")


def test_k4_the_view_follows_a_distribution_that_is_set_and_taken_away(
    open_view: OpenView,
) -> None:
    snapshot = read("keras_model")["snapshot"]
    page = open_view({**snapshot, "distributions": [], "models": []})
    section = page.locator(".nbdist-session-distributions")
    expect(section).to_be_hidden()
    expect(page.locator(".nbdist-lists-layout")).to_be_hidden()
    kinds = section.locator(".nbdist-session-distribution-head")
    for kind in ("DataParallel", "ModelParallel"):
        changed = [{**snapshot["distributions"][0], "kind": kind}]
        page.evaluate("distributions => page.change({distributions})", changed)
        expect(kinds).to_have_text(f"distribution{kind}")
    page.evaluate("page.change({distributions: []})")
    expect(section).to_be_hidden()


def test_k4_distributions_that_disagree_are_flagged_and_each_selects_its_mesh(
    open_view: OpenView,
) -> None:
    page = open_view(read("keras_disagree")["snapshot"])
    versions = page.locator(".nbdist-session-distribution[data-differs]")
    expect(versions.locator(".nbdist-parts-badge")).to_have_text(["processes 0, 1, 3", "process 2"])
    data = versions.get_by_role("button", name="DataParallel")
    expect(data).to_have_attribute("aria-pressed", "false")
    data.press("Enter")
    expect(data).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("tab", name="batch=4")).to_have_attribute("aria-selected", "true")
    open_layout(page)
    model = page.get_by_role("combobox", name="Model")
    variable = page.get_by_role("listbox", name="Variables").get_by_role("option")
    expect(variable).to_have_accessible_description(
        re.compile(r"spec P\(None, None\), 512 KB per device")
    )
    model.select_option("model, Sequential (process 2)")
    expect(variable).to_have_accessible_description(re.compile(r"asks for P\(None, 'model'\)"))


def test_k5_the_layout_names_rule_axes_spec_and_bytes_of_each_variable(
    open_view: OpenView,
) -> None:
    page = open_view(read("keras_model")["snapshot"])
    tab = page.get_by_role("tab", name="layout · 3 without a rule")
    expect(tab).to_have_attribute("aria-selected", "false")
    layout = open_layout(page)
    expect(tab).to_have_attribute("aria-selected", "true")
    expect(page.locator(".nbdist-lists-arrays")).to_be_hidden()
    expect(layout).to_contain_text("65.7 MB on each of 4 devices")
    expect(layout).to_contain_text("rule that matches nothing: .*attention.*/query/kernel")
    rows = layout.get_by_role("option")
    expect(rows.first).to_have_accessible_description(
        "sequential/embedding/embeddings, trainable, "
        "replicated on every device: no rule matched it, spec P(None, None), 16 MB per device"
    )
    expect(layout.locator("[data-flag=missed]")).to_have_count(3)
    slot = rows.filter(has_text="adam/sequential_dense_kernel_momentum")
    expect(slot).to_have_accessible_description(
        re.compile(
            r"optimizer, rule \.\*dense\.\*/kernel, asks for P\(None, 'model'\), spec P\(None, 'model'\)"
        )
    )


def test_k5_a_variable_picked_with_the_keyboard_shows_its_pieces(open_view: OpenView) -> None:
    page = open_view(read("keras_model")["snapshot"])
    page.get_by_role("tab", name="arrays").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("listbox", name="Variables").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".nbdist-array-path")).to_have_text("model.layers[1].kernel")
    expect(page.get_by_role("status")).to_have_text("Showing model.layers[1].kernel")
    active = page.locator(".nbdist-lists-layout .nbdist-lists-box [data-active]")
    expect(active).to_have_attribute("aria-selected", "true")
    described = page.locator(".nbdist-lists-layout .nbdist-lists-box").get_attribute(
        "aria-activedescendant"
    )
    expect(active).to_have_id(described or "")
    expect(page.locator(".nbdist-mesh-card .nbdist-mesh-holds").first).to_have_text(
        "[0:512, 0:1024]"
    )
    page.keyboard.press("Enter")
    expect(page.locator(".nbdist-array-path")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find an array")).to_be_focused()


def test_a_model_of_thousands_of_variables_has_only_the_rows_in_sight(
    open_view: OpenView,
) -> None:
    snapshot = read("keras_model")["snapshot"]
    model = snapshot["models"][0]
    names = [f"block_{n}/dense/kernel" for n in range(5000)]
    variables = [{**model["variables"][1], "path": name} for name in names]
    page = open_view({**snapshot, "models": [{**model, "variables": variables}]})
    open_layout(page)
    rows = page.locator(".nbdist-lists-layout .nbdist-lists-box [role=option]")
    expect(rows.first).to_contain_text("block_0/dense/kernel")
    assert rows.count() < 40
    page.locator(".nbdist-lists-layout .nbdist-lists-box").focus()
    page.keyboard.press("End")
    expect(page.locator(".nbdist-lists-layout .nbdist-lists-box [data-active]")).to_contain_text(
        "block_4999/"
    )


def test_t2_t4_t7_tasks_progress_and_replicas_are_shown(open_view: OpenView) -> None:
    page = open_view(read("tensorflow")["snapshot"])
    expect(page.locator(".nbdist-session-task")).to_have_text(
        ["worker 0, chief", "worker 1", "evaluator 0"]
    )
    expect(page.get_by_role("listitem", name="process 2, evaluator 0, idle")).to_be_visible()
    expect(page.locator(".nbdist-session-progress .nbdist-session-line")).to_have_text(
        [
            "fit, epoch 4 of 5loss 0.287  accuracy 0.923processes 0, 1",
            "evaluate, checkpoint ckpt-3loss 0.418  accuracy 0.88process 2",
        ]
    )
    # Underlined is only what opens something, such as the line of a program.
    line = page.locator(".nbdist-session-progress .nbdist-session-line").first
    expect(line).to_have_css("text-decoration-line", "none")
    facts = page.locator(".nbdist-session-distribution-facts")
    expect(facts).to_contain_text("replicas 4")
    expect(facts).to_contain_text("global batch 10")
    expect(facts).to_contain_text("on the replicas 3, 3, 2, 2")


@pytest.mark.parametrize(("width", "dark"), VARIANTS)
def test_the_values_of_the_picked_array_come_when_they_are_asked_for(
    width: int, dark: bool, open_view: OpenView, shots: Path
) -> None:
    page = open_view(read("tour")["snapshot"], width=width, dark=dark)
    path = page.locator(".nbdist-array-path").inner_text()
    page.get_by_role("button", name="Show values").press("Enter")
    sent = page.evaluate("page.sent")
    assert sent[-1] == {"type": "values", "path": path}
    expect(page.locator(".nbdist-array-values")).to_contain_text("shown once no cell runs")
    page.evaluate("page.receive({type: 'values', path: 'another', text: 'of another view'})")
    expect(page.locator(".nbdist-array-value-text")).to_be_hidden()
    side = 48
    values: list[Any] = [((n % side) * (n // side)) / (side - 1) ** 2 for n in range(side * side)]
    values[side + 1 : side + 9] = ["nan"] * 8
    values[-side // 2 :] = [None] * (side // 2)
    answer = {
        "type": "values",
        "path": path,
        "text": "f32[512, 256]  P('data', 'model') on mesh data=4 × model=2\n[[ 0.1257 -0.1321]]",
        "picture": {"rows": side, "columns": side, "low": -4.5, "high": 4.7, "values": values},
    }
    page.evaluate("answer => page.receive(answer)", answer)
    expect(page.locator(".nbdist-array-value-text")).to_contain_text("f32[512, 256]")
    expect(page.get_by_role("img", name="from -4.5 to 4.7")).to_be_visible()
    theme = "dark" if dark else "light"
    picture(page, shots / f"values-{width}-{theme}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("page.change({state: 'running'})")
    page.evaluate("page.change({state: 'idle'})")
    expect(page.locator(".nbdist-array-values")).to_contain_text("from before the last cell")
    page.get_by_role("button", name="Show values again").click()
    page.evaluate("path => page.receive({type: 'values', path, error: 'process 0 is busy'})", path)
    expect(page.locator(".nbdist-array-values")).to_contain_text("process 0 is busy")
    expect(page.locator(".nbdist-array-value-text")).to_be_hidden()
