"""Times the view on made-up pods: first paint, update and pick, and a screenshot of each.

Of the largest pod of v5p it times a program as well: first paint, choosing a collective, and pointing at a device,
on the mesh and on the torus.

    python tests/bench/view.py [--shots FOLDER]

Times are medians in milliseconds in a headless browser without a GPU, from the text of a frame to
the animation frame after the one that drew it, so two display frames (33 ms) are the least.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
for folder in ("browser", "golden"):
    sys.path.insert(0, str(HERE.parent / folder))

# Scripts of other folders, found only now.
from large import large, large_program  # noqa: E402
from viewpage import ORIGIN, answer, chromium  # noqa: E402

from nbdist.contract.wire import encode  # noqa: E402

PODS = ((64, 4), (2240, 4))
ARRAYS = 2000
ROUNDS = 15

TIMED = """async ([text, kind]) => {
  const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  await drawn();
  const started = performance.now();
  const nth = selector => document.querySelectorAll(selector)[Number(text)];
  if (kind === 'collective') nth('.nbdist-program-collectives tbody tr').click();
  else if (kind === 'point') {
    const rings = document.querySelector('.nbdist-mesh-rings'), area = rings.getBoundingClientRect();
    const at = { clientX: area.left + 12 + 5 * Number(text), clientY: area.top + 32 };
    rings.dispatchEvent(new PointerEvent('pointermove', { ...at, bubbles: true }));
  } else if (kind === 'pick') nth('.nbdist-lists-spacer [aria-selected]').click();
  else page[kind](JSON.parse(text));
  await drawn();
  return performance.now() - started;
}"""


def changed(plain: dict[str, Any], round_: int) -> str:
    """What a training step changes: where every process is, and every device's bytes."""
    processes = [{**process, "line": round_} for process in plain["processes"]]
    devices = [
        {**device, "live_bytes": device["live_bytes"] + (number * round_) % 1_000_000}
        for number, device in enumerate(plain["devices"])
    ]
    return json.dumps({"processes": processes, "devices": devices})


def timed(page: Page, text: str, kind: str) -> float:
    milliseconds: float = page.evaluate(TIMED, [text, kind])
    return milliseconds


def open_page(browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 960, "height": 900})
    page.route(f"{ORIGIN}**", answer)
    page.goto(f"{ORIGIN}page.html")
    page.wait_for_function("window.page")
    return page


def measure(browser: Browser, hosts: int, devices_per_host: int, shots: Path | None) -> str:
    """One line of the table for one pod."""
    plain = encode(large(hosts, devices_per_host, ARRAYS))
    text = json.dumps(plain)
    first = []
    for _ in range(3):
        page = open_page(browser)
        first.append(timed(page, text, "show"))
    updates = [timed(page, changed(plain, round_), "change") for round_ in range(ROUNDS)]
    # A search lists arrays alone; in the tree of so many all branches are closed.
    page.get_by_role("searchbox").fill("layers")
    page.wait_for_selector(".nbdist-lists-spacer [aria-selected] >> nth=6")
    picks = [timed(page, str(round_ % 7), "pick") for round_ in range(ROUNDS)]
    if shots is not None:
        shots.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=shots / f"pod-{hosts}x{devices_per_host}.png", full_page=True)
    times = (statistics.median(values) for values in (first, updates, picks))
    numbers = "".join(f"{value:>12.0f} ms" for value in times)
    return f"{f'{hosts} x {devices_per_host}':<12}{len(text) / 1e6:>6.1f} MB{numbers}"


def measure_program(browser: Browser, shots: Path | None) -> list[str]:
    """A line each for the mesh and the torus of the largest pod of v5p, with a program."""
    text = json.dumps(encode(large_program()))
    lines = []
    for tab in ("mesh", "torus"):
        first = []
        for _ in range(3):
            page = open_page(browser)
            first.append(timed(page, text, "show"))
        if tab == "torus":
            page.get_by_role("tab", name="torus").click()
        chosen = [timed(page, str(round_ % 2), "collective") for round_ in range(ROUNDS)]
        pointed = [timed(page, str(round_ % 7), "point") for round_ in range(ROUNDS)]
        if shots is not None:
            page.screenshot(path=shots / f"program-{tab}.png", full_page=True)
        times = (statistics.median(values) for values in (first, chosen, pointed))
        numbers = "".join(f"{value:>12.0f} ms" for value in times)
        lines.append(f"{tab:<12}{len(text) / 1e6:>6.1f} MB{numbers}")
    return lines


def main() -> None:
    """Prints one line a pod."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=Path, help="folder for screenshots")
    shots = parser.parse_args().shots
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        print(f"{'pod':<12}{'frame':>9}{'first paint':>15}{'update':>15}{'pick':>15}")
        for hosts, devices_per_host in PODS:
            print(measure(browser, hosts, devices_per_host, shots), flush=True)
        print(f"{'program':<12}{'frame':>9}{'first paint':>15}{'choose':>15}{'point':>15}")
        for line in measure_program(browser, shots):
            print(line, flush=True)
        browser.close()


if __name__ == "__main__":
    main()
