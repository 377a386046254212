"""Widgets that processes display, in a real kernel: as a front end would see and use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbdist.view.output.entries import WIDGET_MIME
from tests.builders.cells import SPREAD, until
from tests.integration.notebook import Notebook, Output
from tests.waiting import wait_for

OPTIONS = "-n 2 --devices-per-process 1 --platform cpu"
SETUP = f"{SPREAD}\nimport ipywidgets as W\nfrom IPython.display import display\n"


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


def becomes(notebook: Notebook, model: str, **wanted: Any) -> None:
    wait_for(lambda: wanted.items() <= state(notebook, model).items())


def act(notebook: Notebook, model: str, data: dict[str, Any]) -> None:
    """What a front end sends when a person uses a widget."""
    message = notebook.client.session.msg("comm_msg", {"comm_id": model, "data": data})
    notebook.client.shell_channel.send(message)


def move(notebook: Notebook, model: str, value: int) -> None:
    act(notebook, model, {"method": "update", "state": {"value": value}, "buffer_paths": []})


def test_equal_widgets_are_one_that_all_processes_follow(notebook: Notebook) -> None:
    output = notebook.good(
        "%%dist\nslider = W.IntSlider(3)\n"
        "slider.observe(lambda change: print('sum', change.new * float(w.sum())), 'value')\nslider"
    )
    (model,) = displayed(output)
    assert "processes 0, 1" in output.text
    assert state(notebook, model)["value"] == 3
    notebook.good("%%dist\nslider.value = 5")
    becomes(notebook, model, value=5)
    # What it does on all processes may be a collective: they do it together, and are in step afterwards.
    move(notebook, model, 7)
    notebook.shows("%dist slider.value", "processes 0, 1   7")
    move(notebook, model, 8)
    notebook.shows("%dist slider.value, float(w.sum())", "(8, 8.0)")
    notebook.shows("%dist_recover", "Nothing was changed")


def test_what_a_callback_prints_or_raises_is_shown(notebook: Notebook) -> None:
    output = notebook.good(
        "%%dist\ndef clicked(button):\n    print('clicked', float(w.sum()))\n    if me: 1 / 0\n"
        "button = W.Button(description='Go'); button.on_click(clicked)\nbutton"
    )
    request = notebook.send("%%dist\n'newest'")
    notebook.collect(request)
    act(notebook, displayed(output)[0], {"method": "custom", "content": {"event": "click"}})
    shown = notebook.collect(request, until=r"(?s)clicked 8\.0.*ZeroDivisionError")
    assert "(later)" in shown.text
    notebook.shows("%dist float(w.sum()), float(w.sum())", "(8.0, 8.0)")


def test_each_process_has_its_own_where_they_differ(notebook: Notebook) -> None:
    models = displayed(notebook.good("%%dist\nown = W.IntText(me)\nown"))
    assert [state(notebook, model)["value"] for model in models] == [0, 1]
    move(notebook, models[1], 20)
    notebook.shows("%dist own.value", "process 0   0", "process 1   20")
    (alone,) = displayed(notebook.good("%%dist --on 1\ndisplay(W.Label('mine'))"))
    assert state(notebook, alone)["value"] == "mine"


def test_a_widget_used_during_a_cell_is_put_back_and_says_so(
    notebook: Notebook, tmp_path: Path
) -> None:
    (model,) = displayed(notebook.good("%%dist\nlate = W.IntText(1)\nlate"))
    go = tmp_path / "go"
    notebook.background(f"%%dist --no-wait\nprint('in it', flush=True)\n{until(go)}", "in it")
    move(notebook, model, 5)
    assert state(notebook, model)["value"] == 1
    notices = "print([n.text for n in nbdist.current().snapshot().notices])"
    notebook.shows(f"import nbdist\n{notices}", "cannot do what the widget asks")
    go.touch()
    notebook.good("%sync")
    notebook.shows("%dist late.value", "processes 0, 1   1")


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
    children = state(notebook, displayed(output)[0])["children"]
    slider, shown = (child.removeprefix("IPY_MODEL_") for child in children)
    said = {"output_type": "stream", "name": "stdout", "text": "v is 40.0\n"}
    becomes(notebook, shown, outputs=[said])
    move(notebook, slider, 7)
    becomes(notebook, shown, outputs=[{**said, "text": "v is 56.0\n"}])
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
