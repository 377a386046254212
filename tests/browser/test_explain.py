"""The program of a call in a real session, as a picture in JupyterLab that is used by mouse and keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labpage import Lab, LabPage, notebook
from playwright.sync_api import expect

START = "%load_ext nbdist\n%dist_init -n 2 --devices-per-process 2 --platform cpu"
STEP = """%%dist
import jax, jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
w = jax.device_put(jnp.ones((64, 64)), NamedSharding(mesh, P("model")))
x = jax.device_put(jnp.ones((32, 64)), NamedSharding(mesh, P("data", "model")))

@jax.jit
def step(w, x):
    return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)"""
EXPLAIN = "%dist_explain step(w, x)"
STOP = "%dist_shutdown"


def test_a_collective_is_chosen_in_the_picture_of_a_call_by_mouse_and_keyboard(
    lab: Lab, lab_page: Callable[[], LabPage], shots: Path
) -> None:
    lab_ = lab_page()
    page = lab_.page
    lab_.open(notebook(lab, "explain.ipynb", START, STEP, EXPLAIN, STOP))
    lab_.wait_for_kernel()
    lab_.run_cells(3)
    picture = page.locator(".nbdist").filter(has_text="compiled").last
    program = picture.get_by_role("region", name="Program")
    expect(program).to_contain_text("jit_step")
    rows = program.locator(".nbdist-program-collectives tbody tr")
    rows.filter(has_text="model").first.click()
    cards = picture.locator(".nbdist-mesh-card .nbdist-mesh-holds")
    expect(cards).to_have_text(["group 0", "group 0", "group 1", "group 1"])
    page.screenshot(path=shots / "explain-light.png")
    lab_.theme("dark")
    picture.get_by_role("grid", name="Collectives").focus()
    page.keyboard.press("End")
    expect(rows.last).to_contain_text("data")
    expect(cards).to_have_text(["group 0", "group 1", "group 0", "group 1"])
    page.screenshot(path=shots / "explain-dark.png")
    page.keyboard.press("Escape")
    expect(picture.locator(".nbdist-program-collectives tr[aria-selected='true']")).to_have_count(0)
    lab_.command("notebook:run-cell-and-select-next")
    lab_.command("docmanager:save")


def test_the_picture_is_in_the_saved_notebook_and_used_without_a_kernel(
    lab: Lab, lab_page: Callable[[], LabPage]
) -> None:
    lab_ = lab_page()
    page = lab_.page
    (lab.root / "again.ipynb").write_text((lab.root / "explain.ipynb").read_text())
    lab_.open_empty()
    preference = {"shouldStart": False, "canStart": False}
    lab_.start("docmanager:open", {"path": "again.ipynb", "kernelPreference": preference})
    program = page.get_by_role("region", name="Program")
    program.locator(".nbdist-program-collectives tbody tr").first.click()
    expect(page.locator(".nbdist-mesh-card .nbdist-mesh-holds").first).to_have_text("group 0")
