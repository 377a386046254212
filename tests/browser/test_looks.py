"""How twelve states look in both themes: computed styles are as they were, and axe-core finds nothing wrong.

Pixels differ between machines, since their fonts do. What a style sheet decides does not: colours, sizes of text,
edges, distances, how boxes are laid out. So each element of a page is described by these, and `looks.json` has the
descriptions of all kinds of elements. A rule of one sheet that reaches into another changes some of them.
`NBDIST_LOOKS=write` writes the file anew; look at the pictures (`NBDIST_SHOTS`) before it is committed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenView
from playwright.sync_api import Page
from viewpage import set_theme

from tests.places import ROOT
from tests.variants import cases

LOOKS = Path(__file__).with_name("looks.json")
AXE = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"

PINNED = ".nbdist-mesh-card >> nth=1"
STATES = {
    "failed": ("failed", "", None),
    "starting": ("empty", "", None),
    "strip": ("tour", "?form=strip", None),
    "strip of a failure": ("failed", "?form=strip", None),
    "running": ("tour", "", PINNED),
    "idle": ("transformer", "", None),
    "stuck": ("stuck", "", None),
    "out of step": ("out_of_step", "", None),
    "with a model": ("keras_model", "", "[role=tab] >> text=layout"),
    "models differ": ("keras_disagree", "", None),
    "compiled": ("compiled_step", "", "tr[aria-selected] >> nth=0"),
    "many devices": ("pieces_256", "", None),
}

COLOURS = (
    *("color", "background-color", "background-image", "border-top", "border-left", "box-shadow"),
)
SHAPES = (
    *("border-radius", "display", "position", "font-size", "font-weight", "font-style"),
    *("line-height", "margin", "padding", "opacity", "outline-style", "text-align"),
    *("text-decoration-line", "white-space-collapse", "overflow-wrap", "overflow-x", "gap"),
    *("flex", "grid-auto-flow", "z-index"),
)

DESCRIBE = """wanted => {
  const short = text => text.replaceAll(/\\d+\\.\\d+/g, number => String(Math.round(100 * number) / 100));
  const found = {};
  for (const node of document.querySelectorAll('.nbdist, .nbdist *')) {
    if (!node.checkVisibility() || node.closest('.nbdist-parts-hidden')) continue;
    const dropped = ['data-device', 'data-shard', 'data-key', 'data-lm-suppress-shortcuts'];
    const named = [...node.attributes]
      .filter(({ name }) => /^(data-|aria-(selected|expanded|pressed))/.test(name))
      .filter(({ name }) => !dropped.includes(name))
      .map(({ name, value }) => `[${name}=${value}]`);
    const above = node.className ? '' : `${node.parentElement.className || node.parentElement.tagName} > `;
    const kind = `${above}${node.tagName.toLowerCase()}.${node.className}${named.sort().join('')}`;
    const style = getComputedStyle(node);
    const filled = node.style.getPropertyValue('--fill') ? ['background-color'] : [];
    const look = wanted.filter(name => !filled.includes(name)).map(name => short(style.getPropertyValue(name)));
    (found[kind] ??= new Set()).add(look.join('; '));
  }
  return Object.fromEntries(Object.entries(found).map(([kind, looks]) => [kind, [...looks].sort()]));
}"""

Looks = dict[str, dict[str, list[str]]]


def packed(looks: Looks) -> str:
    """Return the file's text, in which each look is written once; kinds of elements name looks by number."""
    every = sorted({look for kinds in looks.values() for own in kinds.values() for look in own})
    number = {look: i for i, look in enumerate(every)}
    between = ",\n "
    listed = between.join(json.dumps(look) for look in every)
    parts = [f'"looks": [{listed}]']
    for theme, kinds in looks.items():
        rows = (
            f"{json.dumps(kind)}: {[number[look] for look in own]}"
            for kind, own in sorted(kinds.items())
        )
        parts.append(f'"{theme}": {{{between.join(rows)}}}')
    return f"{{{between.join(parts)}}}\n"


def unpacked(content: dict[str, Any]) -> Looks:
    every = content["looks"]
    return {
        theme: {kind: [every[i] for i in own] for kind, own in content[theme].items()}
        for theme in ("light", "dark")
    }


@pytest.fixture(scope="module")
def known() -> Iterator[Looks]:
    """The looks of all kinds of elements by theme; written at the end if that is asked for."""
    writes = os.environ.get("NBDIST_LOOKS") == "write"
    looks: Looks = {"light": {}, "dark": {}}
    if not writes:
        looks = unpacked(json.loads(LOOKS.read_text(encoding="utf-8")))
    yield looks
    if writes:
        LOOKS.write_text(packed(looks), encoding="utf-8")


def shown(page: Page, state: str, shots: Path, theme: str) -> dict[str, list[str]]:
    """Describe the elements of a page; in the dark only their colours, since all else is the same."""
    if "NBDIST_SHOTS" in os.environ:
        name = f"look-{state.replace(' ', '-')}-{theme}.png"
        page.screenshot(path=shots / name, full_page=True)
    found: dict[str, list[str]] = page.evaluate(
        DESCRIBE, [*COLOURS, *(SHAPES if theme == "light" else ())]
    )
    return found


@pytest.mark.parametrize("state", cases(*STATES))
def test_every_kind_of_element_looks_as_it_did(
    state: str,
    open_view: OpenView,
    golden: Callable[[str], dict[str, Any]],
    known: Looks,
    shots: Path,
) -> None:
    name, query, click = STATES[state]
    page = open_view(None, query=query)
    page.evaluate("snapshot => page.show(snapshot)", golden(name)["snapshot"])
    page.locator(".nbdist-session-bar, .nbdist-session-strip").filter(visible=True).first.wait_for()
    if click is not None:
        page.locator(click).click()
        page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.add_script_tag(path=AXE)
    for theme in ("light", "dark"):
        page.evaluate("page.change({})")  # on a slow machine the last news are old
        set_theme(page, dark=theme == "dark")
        page.wait_for_selector(f"[data-nbdist-theme={theme}]", state="attached")
        page.wait_for_timeout(250)  # transitions of bars
        found = shown(page, state, shots, theme)
        if os.environ.get("NBDIST_LOOKS") == "write":
            for kind, looks in found.items():
                known[theme][kind] = sorted({*known[theme].get(kind, []), *looks})
        for kind, looks in found.items():
            assert set(looks) <= set(known[theme].get(kind, [])), (theme, kind)
        result: dict[str, Any] = page.evaluate("axe.run('.nbdist')")
        assert result["passes"]
        problems = [
            (one["id"], [node["html"][:200] for node in one["nodes"]])
            for one in result["violations"]
        ]
        assert problems == [], theme
