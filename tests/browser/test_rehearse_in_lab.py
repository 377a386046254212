"""Rehearsals in a real notebook: a program that does not fit, and one that does, as pictures in JupyterLab.

It needs libtpu, which is in no environment that has JupyterLab: it is named as by users who have it elsewhere, in
TPU_LIBRARY_PATH, by `make test-rehearse`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from labpage import Lab, LabPage, notebook
from playwright.sync_api import Locator, expect
from viewpage import row_of

COMPILED_MS = 600_000
"""For the compiler and a process that starts, on a machine with other work."""

pytestmark = pytest.mark.timeout(3 * COMPILED_MS / 1000)

LOAD = "%load_ext nbdist"
REFUSED = """%%dist_rehearse --topology v5e:4x4 --mesh data=4,model=4
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

def place(shape, *spec):
    return jax.device_put(jnp.zeros(shape), NamedSharding(mesh, P(*spec)))

@jax.jit
def step(w, x):
    return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

w = place((4096, 4096), None, "model")
x = place((2**20, 4096))
step(w, x)"""
FITS = """%%dist_rehearse
x = place((2**20, 4096), "data")
w = step(w, x)"""


PARTS = [f"[0:4096, {n}:{n + 1024}]" for n in range(0, 4096, 1024)]
"""Of `w`, along `model`."""

WHOLE = "args[1]"
"""`x`, as the refused program has it."""


def picture(lab_: LabPage, state: str) -> Locator:
    """The picture of a program that was compiled, or refused."""
    view = lab_.output.filter(has=lab_.page.locator(".nbdist-session-state", has_text=state))
    expect(view.locator(".nbdist-session-bar")).to_have_text(f"{state}16 TPU v5 lite devices")
    return view


def cards(view: Locator) -> Locator:
    """What the devices hold, or in which group they are."""
    return view.locator(".nbdist-mesh-card .nbdist-mesh-holds")


def test_what_does_not_fit_shows_how_its_arguments_lie_and_what_fits_who_talks_to_whom(
    lab: Lab, lab_page: Callable[..., LabPage], shots: Path
) -> None:
    lab_ = lab_page()
    page = lab_.page
    page.set_viewport_size({"width": 1900, "height": 1500})
    page.set_default_timeout(COMPILED_MS)
    lab_.open(notebook(lab, "rehearse.ipynb", LOAD, REFUSED, FITS))
    lab_.wait_for_kernel()
    lab_.run_cells(3)
    refused, fits = (picture(lab_, state) for state in ("refused", "compiled"))
    program = refused.get_by_role("region", name="Program")
    expect(program).to_contain_text("jit_step does not fit")
    expect(program).to_contain_text("too much")
    expect(program).to_contain_text("exceeds available HBM")
    expect(refused.get_by_role("region", name="Notices")).to_contain_text(
        "Not compiled. Arguments lie as they were given."
    )
    expect(cards(refused)).to_have_text(PARTS * 4)
    refused.scroll_into_view_if_needed()
    page.screenshot(path=shots / "rehearse-refused-light.png")
    # What needs a spec is whole on each device.
    refused.get_by_role("tab", name="arrays").click()
    row_of(refused, WHOLE).click()
    expect(cards(refused)).to_have_text(["[0:1048576, 0:4096]"] * 16)
    lab_.theme("dark")
    page.screenshot(path=shots / "rehearse-refused-dark.png")
    fits.scroll_into_view_if_needed()
    program = fits.get_by_role("region", name="Program")
    expect(program).to_contain_text("jit_step: fits")
    rows = program.locator(".nbdist-program-collectives tbody tr")
    rows.filter(has_text="data").first.click()
    device = fits.get_by_role("region", name="Device")
    for tab in ("data=4 × model=4", "torus x=4 × y=4"):
        fits.get_by_role("tab", name=tab).click()
        fits.locator(".nbdist-mesh-mesh").focus()
        page.keyboard.press("ArrowDown")
        expect(device).to_contain_text("exchangeswith p0 · d2, p2 · d0, p2 · d2")
    page.screenshot(path=shots / "rehearse-fits-dark.png")
    lab_.theme("light")
    fits.get_by_role("grid", name="Collectives").focus()
    page.keyboard.press("End")
    expect(rows.last).to_have_attribute("aria-selected", "true")
    page.screenshot(path=shots / "rehearse-fits-light.png")
