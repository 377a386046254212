"""Widgets that processes display, in a real kernel: as a front end would see and use them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist.view.output.entries import WIDGET_MIME
from tests.integration.notebook import Notebook, Output


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("widgets")) as notebook:
        notebook.good("%load_ext nbdist")
        notebook.good("%dist_init -n 2 --devices-per-process 1 --platform cpu")
        notebook.good(
            "%%dist\nimport jax, jax.numpy as jnp, ipywidgets as W\nfrom IPython.display import display\n"
            "from jax.sharding import NamedSharding, PartitionSpec as P\n"
            "mesh = jax.make_mesh((2,), ('x',))\n"
            "w = jax.device_put(jnp.ones(8), NamedSharding(mesh, P('x')))"
        )
        yield notebook


def displayed(output: Output) -> list[str]:
    """The ids of the models that are shown."""
    return [view["model_id"] for view in output.mime(WIDGET_MIME)]


def state(notebook: Notebook, model: str) -> dict[str, Any]:
    """What a front end that asks for it now is given of a model."""
    code = (
        "import ipywidgets, json\n"
        f"print(json.dumps(ipywidgets.Widget.get_manager_state()['state'][{model!r}]['state']))"
    )
    found: dict[str, Any] = json.loads(notebook.good(code).text.splitlines()[-1])
    return found


def wait_for(notebook: Notebook, model: str, **wanted: Any) -> None:
    deadline = time.monotonic() + 30
    while not wanted.items() <= (found := state(notebook, model)).items():
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def act(notebook: Notebook, model: str, data: dict[str, Any]) -> None:
    """What a front end sends when a person uses a widget."""
    message = notebook.client.session.msg("comm_msg", {"comm_id": model, "data": data})
    notebook.client.shell_channel.send(message)


def move(notebook: Notebook, model: str, value: int) -> None:
    act(notebook, model, {"method": "update", "state": {"value": value}, "buffer_paths": []})


def test_equal_widgets_are_one_that_all_processes_follow(notebook: Notebook) -> None:
    request = notebook.send(
        "%%dist\nslider = W.IntSlider(3)\n"
        "slider.observe(lambda change: print('sum', change.new * float(w.sum())), 'value')\nslider"
    )
    output = notebook.collect(request)
    (model,) = displayed(output)
    assert "processes 0, 1" in output.text
    assert state(notebook, model)["value"] == 3
    notebook.good("%%dist\nslider.value = 5")
    wait_for(notebook, model, value=5)
    # What it does on all processes may be a collective: they do it together, and are in step afterwards.
    move(notebook, model, 7)
    assert "processes 0, 1   7" in notebook.good("%dist slider.value").text
    move(notebook, model, 8)
    assert "(8, 8.0)" in notebook.good("%dist slider.value, float(w.sum())").text
    assert "in step: checked just now" in notebook.good("%dist_recover").text


def test_what_a_callback_prints_or_raises_is_shown(notebook: Notebook) -> None:
    output = notebook.good(
        "%%dist\ndef clicked(button):\n    print('clicked', float(w.sum()))\n    if jax.process_index(): 1 / 0\n"
        "button = W.Button(description='Go'); button.on_click(clicked)\nbutton"
    )
    request = notebook.send("%%dist\n'newest'")
    notebook.collect(request)
    act(notebook, displayed(output)[0], {"method": "custom", "content": {"event": "click"}})
    shown = notebook.collect(request, until=r"(?s)clicked 8\.0.*ZeroDivisionError")
    assert "(later)" in shown.text
    assert "(8.0, 8.0)" in notebook.good("%dist float(w.sum()), float(w.sum())").text


def test_each_process_has_its_own_where_they_differ(notebook: Notebook) -> None:
    output = notebook.good("%%dist\nown = W.IntText(jax.process_index())\nown")
    models = displayed(output)
    assert [state(notebook, model)["value"] for model in models] == [0, 1]
    move(notebook, models[1], 20)
    shown = notebook.good("%dist own.value").text
    assert "process 0   0" in shown
    assert "process 1   20" in shown
    alone = notebook.good("%%dist --on 1\ndisplay(W.Label('mine'))")
    assert state(notebook, displayed(alone)[0])["value"] == "mine"


def test_a_widget_used_during_a_cell_is_put_back_and_says_so(
    notebook: Notebook, tmp_path: Path
) -> None:
    output = notebook.good("%%dist\nlate = W.IntText(1)\nlate")
    (model,) = displayed(output)
    request = notebook.send(
        f"%%dist --no-wait\nimport os, time\nprint('in it', flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.05)"
    )
    notebook.collect(request, until="in it")
    move(notebook, model, 5)
    assert state(notebook, model)["value"] == 1
    said = notebook.good(
        "import nbdist\nprint([n.text for n in nbdist.current().snapshot().notices])"
    )
    (tmp_path / "go").touch()
    notebook.good("%sync")
    assert "cannot do what the widget asks" in said.text
    assert "processes 0, 1   1" in notebook.good("%dist late.value").text


def test_a_bar_of_tqdm_is_one_widget_and_text_in_a_saved_notebook(notebook: Notebook) -> None:
    output = notebook.good(
        "%%dist\nfrom tqdm.auto import tqdm\nimport time\n"
        "for _ in tqdm(range(20), desc='load'): time.sleep(0.01)"
    )
    (model,) = displayed(output)
    assert "processes 0, 1\nload: 100%|████" in output.text
    assert "20/20" in output.text
    progress = state(notebook, model)["children"][1].removeprefix("IPY_MODEL_")
    assert state(notebook, progress)["value"] == 20
    gone = notebook.good("%%dist\nfor _ in tqdm(range(3), leave=False): pass\nprint('done')")
    assert gone.text == "processes 0, 1   done"


def test_what_a_widget_captures_is_shown_in_it(notebook: Notebook) -> None:
    output = notebook.good(
        "%%dist\nW.interact(lambda v: print('v is', v * float(w.sum())), v=(0, 10));"
    )
    slider, shown = (
        child.removeprefix("IPY_MODEL_")
        for child in state(notebook, displayed(output)[0])["children"]
    )
    said = {"output_type": "stream", "name": "stdout", "text": "v is 40.0\n"}
    wait_for(notebook, shown, outputs=[said])
    move(notebook, slider, 7)
    wait_for(notebook, shown, outputs=[{**said, "text": "v is 56.0\n"}])
    assert "v is" not in output.text


def test_a_script_gets_text(notebook: Notebook) -> None:
    shown = notebook.good(
        "import nbdist\nfrom nbdist.view.output import TerminalRenderer\n"
        "code = 'for _ in tqdm(range(3)): pass\\nwith W.Output(): print(\"captured\")'\n"
        "_ = nbdist.current().run(code, renderer=TerminalRenderer())"
    )
    assert "3/3" in shown.text
    assert "captured" in shown.text
    assert displayed(shown) == []
