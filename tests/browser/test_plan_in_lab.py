"""A plan in a real notebook, as a picture in JupyterLab that is used by mouse and keyboard, in both themes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labpage import Lab, LabPage, notebook
from playwright.sync_api import Locator, expect
from viewpage import row_of

SETUP = """%load_ext nbdist
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P

def init():
    block = {"up": jnp.zeros((8192, 32768)), "down": jnp.zeros((32768, 8192))}
    return {"embed": jnp.zeros((128256, 8192)), "blocks": [block] * 8}

params = jax.eval_shape(init)
rules = [("up", P("data", "model")), ("down", P("model", "data")), ("embed", P(None, "model"))]"""
PLAN = "%dist_plan --topology v5e:16x16 --mesh data=16,model=16 --specs rules params"

COLOURS = """canvas => {
  const { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const found = {};
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 255) continue;
    const colour = data.slice(at, at + 3).join();
    found[colour] = (found[colour] ?? 0) + 1;
  }
  // Those of the cells, and not of the digits in them.
  return Object.keys(found).filter(colour => found[colour] > width * height / 200);
}"""


def colours(view: Locator) -> set[str]:
    """With which the cells of the pod are filled."""
    return set(view.locator(".nbdist-mesh-tiles").evaluate(COLOURS))


def test_an_array_is_chosen_in_the_picture_of_a_plan_by_mouse_and_keyboard(
    lab: Lab, lab_page: Callable[..., LabPage], shots: Path
) -> None:
    lab_ = lab_page()
    page = lab_.page
    page.set_viewport_size({"width": 1500, "height": 1500})
    lab_.open(notebook(lab, "plan.ipynb", SETUP, PLAN))
    lab_.wait_for_kernel()
    lab_.run_cells(2)
    view = lab_.output.filter(has_text="planned").last
    expect(view.locator(".nbdist-session-bar")).to_have_text("planned256 TPU v5 lite devices")
    expect(view.locator(".nbdist-parts-title").first).to_have_text("showing params['embed']")
    page.screenshot(path=shots / "plan-light.png")
    light = colours(view)
    # By mouse: which piece a device would hold is that of its places along both axes.
    arrays = view.get_by_role("tree", name="Arrays")
    row_of(arrays, "params['blocks'][0]['up']").click()
    expect(view.locator(".nbdist-parts-title").first).to_have_text(
        "showing params['blocks'][0]['up']"
    )
    device = view.get_by_role("region", name="Device")
    rings = view.locator(".nbdist-mesh-rings").first
    rings.hover(position={"x": 65, "y": 35}, force=True)
    expect(device).to_contain_text("process 0 · device 0")
    expect(device).to_contain_text("0:512, 0:2048")
    # By keyboard, where the chips are, and in the other theme.
    lab_.theme("dark")
    torus = view.get_by_role("tab", name="torus x=16 × y=16")
    view.get_by_role("tab", name="data=16 × model=16").focus()
    page.keyboard.press("ArrowRight")
    expect(torus).to_have_attribute("aria-selected", "true")
    expect(view.locator(".nbdist-page-left")).to_contain_text("x and y wrap around")
    arrays.focus()
    page.keyboard.press("Home")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(view.locator(".nbdist-parts-title").first).to_have_text("showing params['embed']")
    expect(torus).to_have_attribute("aria-selected", "true")
    view.locator(".nbdist-mesh-mesh").focus()
    for key, process, number, jax_id in (
        ("ArrowDown", 0, 0, 0),
        ("ArrowRight", 0, 1, 1),
        ("ArrowDown", 0, 3, 17),
    ):
        page.keyboard.press(key)
        expect(device.locator("b")).to_have_text(f"process {process} · device {number}")
        expect(device).to_contain_text(f"JAX id {jax_id}")
    expect(device).to_contain_text("512:1024")
    page.screenshot(path=shots / "plan-dark.png")
    dark = colours(view)
    assert len(light) >= 8 and len(dark) >= 8 and not light & dark
