"""Messages as a person reads them in JupyterLab, and a recording of a process that is killed."""

from __future__ import annotations

import io
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from labpage import SHOWN, Lab, LabPage, notebook
from PIL import Image
from playwright.sync_api import Locator, expect

START = "%load_ext nbdist\n%dist_init -n 4 --platform cpu"

MODEL = """%%dist
import os, signal, time
import jax, jax.numpy as jnp
mesh = jax.make_mesh((4,), ("data",))
w = jnp.ones((512, 256), device=jax.NamedSharding(mesh, jax.P("data")))
seed = jnp.ones(4, device=jax.NamedSharding(mesh, jax.P()))
me = jax.process_index()"""

KILLED = """%%dist
for step in range(40):
    loss = float(w.mean())
    time.sleep(0.1)
    if me == 2 and step == 25:
        os.kill(os.getpid(), signal.SIGKILL)"""

BATCH = """%%dist
batches = [1.0, 2.0, 3.0][: 3 - (me == 1)]
for batch in range(3):
    loss = float(w.mean()) * batches[batch]"""

GOES_ON = "%%dist\nprint(float(seed.sum()))"

CELLS = {
    "option": ("%%dist --tiemout 3\nfloat(w.sum())", "Did you mean --timeout?"),
    "raised": (BATCH, "IndexError: list index out of range"),
    "one process": ("%%dist --on 0\nfloat(w.sum())", "on process 0 only"),
    "killed": (KILLED, "Process 2 was killed by signal 9 (SIGKILL)"),
    "goes on": (GOES_ON, "4.0"),
    "lost": ("%%dist\nfloat(w.sum())", "w was lost with process 2"),
}
"""A name for pictures, a cell, and a part of what it shows."""

TRAINING = """%%dist
import time
import jax, jax.numpy as jnp

mesh = jax.make_mesh((4,), ("data",))
rows, whole = (jax.NamedSharding(mesh, spec) for spec in (jax.P("data"), jax.P()))
w, count = jnp.ones((8, 256), device=whole), 0
step = jax.jit(lambda w, x: w - 0.02 * x.mean() * w)

def train():
    global w, count
    new = step(w, jnp.ones(8, device=rows))
    loss = float(new.mean())
    w, count = new, count + 1
    return loss"""

TRAIN = """%%dist
while count < 60:
    loss = train()
    time.sleep(0.1)
print(f"step {count}: {loss:.4f}")"""

RUN = """async code => {
  const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
  const asked = kernel.requestExecute({ code, store_history: false });
  let said = '';
  asked.onIOPub = ({ content }) => { said += content.text ?? ''; };
  await asked.done;
  return said;
}"""
"""Runs code in the kernel without a cell; answers what it has printed."""

PIDS = "import nbdist\nprint(*[one.pid for one in nbdist.current().snapshot().processes])"

FRAME_SECONDS = 0.5


class Recording:
    """Pictures of a page, taken while something goes on; none where nobody looks at them."""

    def __init__(self, lab_: LabPage) -> None:
        self._lab = lab_
        self._frames: list[Image.Image] = []

    def until_idle(self) -> None:
        while self._lab.busy():
            self._take()
        self._take()

    def _take(self) -> None:
        if "NBDIST_SHOTS" in os.environ:
            shot = Image.open(io.BytesIO(self._lab.page.screenshot()))
            self._frames.append(shot.convert("RGB"))
        time.sleep(FRAME_SECONDS)

    def save(self, path: Path) -> None:
        if self._frames:
            first, *others = self._frames
            lasts = [int(1000 * FRAME_SECONDS)] * len(others) + [4000]
            first.save(
                path, save_all=True, append_images=others, duration=lasts, loop=0, quality=60
            )


@pytest.fixture
def open_notebook(lab_page: Callable[[], LabPage], lab: Lab) -> Callable[..., LabPage]:
    """Opens a notebook beside the panel and runs its first two cells."""

    def open_(name: str, *sources: str) -> LabPage:
        lab_ = lab_page()
        lab_.page.set_viewport_size({"width": 1280, "height": 800})
        lab_.open_with_view(notebook(lab, name, *sources), run=2)
        return lab_

    return open_


def output_of(lab_: LabPage, number: int) -> Locator:
    cell: Locator = lab_.page.locator(".jp-Notebook .jp-CodeCell").nth(number)
    return cell.locator(".jp-OutputArea")


def test_messages_are_short_and_what_is_long_is_folded(
    open_notebook: Callable[..., LabPage], shots: Path
) -> None:
    sources = (source for source, _ in CELLS.values())
    lab_ = open_notebook("messages.ipynb", START, MODEL, *sources)
    for number, (name, (_, said)) in enumerate(CELLS.items(), 2):
        lab_.start_next()
        output = output_of(lab_, number)
        expect(output).to_contain_text(said, timeout=60_000)
        expect(lab_.page.locator(".jp-InputArea-prompt", has_text="*")).to_have_count(0)
        long_lines = [line.strip() for line in output.inner_text().splitlines() if len(line) > 40]
        assert len(long_lines) == len(set(long_lines)), long_lines
        for details in output.locator("details").all():
            expect(details).not_to_have_attribute("open", re.compile(".*"))
        for theme in SHOWN:
            lab_.theme(theme)
            output.screenshot(path=shots / f"message-{name.replace(' ', '-')}-{theme}.png")
        lab_.theme("light")


def test_screenshots_of_a_process_that_is_killed_and_replaced(
    open_notebook: Callable[..., LabPage], shots: Path
) -> None:
    lab_ = open_notebook("killed.ipynb", START, TRAINING, TRAIN, TRAIN)
    lab_.command("application:toggle-left-area")
    recording = Recording(lab_)
    pids: str = lab_.page.evaluate(RUN, PIDS)
    lab_.start_next()
    expect(lab_.panel.locator(".nbdist-session-state")).to_have_text("running")
    time.sleep(2)
    os.kill(int(pids.split()[2]), signal.SIGKILL)
    recording.until_idle()
    expect(output_of(lab_, 2)).to_contain_text("Process 2 was killed by signal 9 (SIGKILL)")
    expect(output_of(lab_, 2)).to_contain_text("All variables are kept.")
    lab_.start_next()
    recording.until_idle()
    expect(output_of(lab_, 3)).to_have_text("processes 0–3   step 60: 0.2976")
    recording.save(shots / "killed.webp")
