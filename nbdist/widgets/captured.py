"""Output that an `ipywidgets.Output` captures on a process, as `interact` does: it goes to that widget.

Source: `ipywidgets.widgets.widget_output.Output` (ipywidgets 8): it captures as long as its `msg_id` is set. In a
notebook the front end does the capturing, but the output of processes does not come from its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KIND = "OutputModel"

captured_messages = frozenset({"stream", "display_data", "execute_result", "error", "clear_output"})

MOST_CHARACTERS = 200_000
"""Characters of text in one widget; older outputs beyond it are left out, and the widget says so."""

LEFT_OUT = "… earlier output is left out"

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
"""Names a model of the process, which no front end of this kernel knows."""

Outputs = tuple[Mapping[str, Any], ...]


class Captured:
    """The outputs captured by one such widget."""

    def __init__(self) -> None:
        self._clear_next = False

    def add(self, outputs: Sequence[Mapping[str, Any]], message: Mapping[str, Any]) -> Outputs:
        """Return the outputs after one more message, in the form that notebooks have.

        Raises:
          KeyError: The message lacks something.
        """
        kind, content = message["msg_type"], message["content"]
        if kind == "clear_output":
            self._clear_next = bool(content.get("wait"))
            return tuple(outputs) if self._clear_next else ()
        if self._clear_next:
            outputs, self._clear_next = (), False
        return _bounded(_joined(outputs, _output(kind, content)))


def _output(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "stream":
        return {"output_type": "stream", "name": content["name"], "text": content["text"]}
    if kind == "error":
        names = ("ename", "evalue", "traceback")
        return {"output_type": "error", **{name: content[name] for name in names}}
    # A widget in there is a model of the process, which no front end knows.
    data = {mime: value for mime, value in content["data"].items() if mime != WIDGET_MIME}
    return {"output_type": "display_data", "data": data, "metadata": content.get("metadata") or {}}


def _joined(outputs: Sequence[Mapping[str, Any]], new: Mapping[str, Any]) -> Outputs:
    last = outputs[-1] if outputs else {}
    if new["output_type"] == "stream" and last.get("name") == new["name"]:
        return *outputs[:-1], {**last, "text": last["text"] + new["text"]}
    return *outputs, new


def _bounded(outputs: Outputs) -> Outputs:
    if sum(len(str(output)) for output in outputs) <= MOST_CHARACTERS:
        return outputs
    said = {"output_type": "stream", "name": "stderr", "text": f"{LEFT_OUT}\n"}
    last = dict(outputs[-1])
    if "text" in last:
        last["text"] = last["text"][-MOST_CHARACTERS // 2 :]
    return said, last
