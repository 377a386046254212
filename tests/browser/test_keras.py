"""Keras in a real JupyterLab, on two real processes: what is set changes in the view while a cell trains."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from labpage import Lab, LabPage, notebook
from playwright.sync_api import expect
from viewpage import row_of

START = "%load_ext nbdist\n%dist_init -n 2 --devices-per-process 2 --framework keras --platform cpu"

MODEL = """%%dist
import time
from pathlib import Path
import jax
import keras
import numpy as np

devices = keras.distribution.list_devices()
keras.utils.set_random_seed(7)
x = np.random.default_rng(jax.process_index()).normal(size=(64, 32)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int32")


def built(name):
    model = keras.Sequential(
        [
            keras.Input((32,)),
            keras.layers.Dense(1024, activation="relu", name=f"{name}_hidden"),
            keras.layers.Dense(1024, activation="relu", name=f"{name}_middle"),
            keras.layers.Dense(2, name=f"{name}_out"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


class Slow(keras.callbacks.Callback):
    # Does not go on from an epoch before the test has made a file.

    def __init__(self, epoch, file):
        super().__init__()
        self.until = (epoch, file)

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.3)
        while epoch == self.until[0] and not Path(self.until[1]).exists():
            time.sleep(0.05)


data = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
grid = keras.distribution.DeviceMesh((2, 2), ["batch", "model"], devices)
rules = keras.distribution.LayoutMap(grid)
rules[".*/model_hidden/kernel"] = (None, "model")
rules[".*/model_attention/kernel"] = (None, "model")
parallel = keras.distribution.ModelParallel(
    layout_map=rules, batch_dim_name="batch", auto_shard_dataset=False
)"""

TRAINING = """%%dist
slow, slower = Slow(2, "{data}"), Slow(7, "{model}")
keras.distribution.set_distribution(data)
model = built("data")
model.fit(x, y, batch_size=16, epochs=4, verbose=0, callbacks=[slow])
keras.distribution.set_distribution(parallel)
model = built("model")
model.fit(x, y, batch_size=16, epochs=10, verbose=0, callbacks=[slower])"""


def test_k4_k5_the_view_shows_the_distribution_change_while_a_cell_trains(
    lab: Lab, lab_page: Callable[[], LabPage], shots: Path, tmp_path: Path
) -> None:
    lab_ = lab_page()
    training = TRAINING.format(data=tmp_path / "data", model=tmp_path / "model")
    lab_.open(notebook(lab, "keras.ipynb", START, MODEL, "%dist_mesh", training))
    lab_.wait_for_kernel()
    lab_.run_cells(3)
    view = lab_.output.last
    lab_.start("notebook:run-cell")
    # One process is there first, so for a moment there may be two.
    kinds = view.locator(".nbdist-session-distribution-head button")
    progress = view.locator(".nbdist-session-progress")
    expect(kinds).to_have_text(["DataParallel"], timeout=60_000)
    expect(progress).to_contain_text(re.compile(r"fit, epoch \d of 4.*accuracy"), timeout=60_000)
    assert lab_.busy(), "the cell still trains"
    (tmp_path / "data").touch()
    expect(kinds).to_have_text(["ModelParallel"], timeout=60_000)
    expect(view.locator(".nbdist-session-rules")).to_contain_text(
        ".*/model_hidden/kernelP(None, 'model')"
    )
    view.get_by_role("tab", name="layout").click()
    layout = view.get_by_role("region", name="Layout of a model")
    split = row_of(layout, "sequential_1/model_hidden/kernel")
    expect(split).to_have_accessible_description(
        re.compile(
            r"rule \.\*/model_hidden/kernel, asks for P\(None, 'model'\), spec P\(None, 'model'\), 64 KB"
        ),
        timeout=60_000,
    )
    missed = row_of(layout, "sequential_1/model_middle/kernel")
    expect(missed).to_have_accessible_description(re.compile("no rule matched it"))
    expect(progress).to_contain_text(re.compile(r"fit, epoch \d+ of 10"), timeout=60_000)
    holds = view.locator(".nbdist-mesh-card .nbdist-mesh-holds").first
    missed.click()
    expect(holds).to_have_text("[0:1024, 0:1024]")
    split.click()
    expect(holds).to_have_text("[0:32, 0:512]")
    assert lab_.busy(), "the cell still trains"
    lab_.page.screenshot(path=shots / "keras-lab.png")
    (tmp_path / "model").touch()
    while lab_.busy():
        lab_.page.wait_for_timeout(200)
    expect(lab_.errors).to_have_count(0)
    # What is out of sight is not drawn.
    progress.scroll_into_view_if_needed()
    expect(progress).to_contain_text(re.compile(r"fit, epoch 10 of 10"))
