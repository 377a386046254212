"""Models of one process's widgets, as its messages describe them, with captured output and progress bars."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

KIND = "OutputModel"
"""The model of an `ipywidgets.Output`."""

captured_messages = frozenset({"stream", "display_data", "execute_result", "error", "clear_output"})
"""The types of the messages that such a widget captures."""

MOST_CHARACTERS = 200_000
"""The most characters of text in one widget; older outputs are left out, and the widget says so."""

LEFT_OUT = "… earlier output is left out"

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
"""The MIME type that names a model of the process, which no front end of this kernel knows."""

Outputs = tuple[Mapping[str, Any], ...]


class Captured:
    """The outputs that one `ipywidgets.Output` on a process captures and shows itself, as for `interact`.

    Source: `ipywidgets.widgets.widget_output.Output` (ipywidgets 8), which captures as long as its `msg_id` is
    set. In a notebook the front end does the capturing, but the output of processes does not come from its kernel.
    """

    def __init__(self) -> None:
        self._clear_next = False

    def add(self, outputs: Sequence[Mapping[str, Any]], message: Mapping[str, Any]) -> Outputs:
        """Return the outputs after one more message, in the notebook format.

        Raises:
          KeyError: The message lacks a field.
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
    # A widget in the data refers to a model on the process, which front ends do not know.
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


TARGET = "jupyter.widget"
REFERENCE = "IPY_MODEL_"
"""The text that is before the id of another model in a state."""

MOST_MODELS = 10_000
"""The most models of one tree; more are not looked at."""

UNCOMPARED = frozenset({"_view_count"})
"""Keys of a state that front ends set for themselves."""

Path = tuple[str | int, ...]
"""The keys and indices that lead from a displayed widget to one of its parts."""


class WidgetModel:
    """The state of one widget; `content` is equal for equal states, apart from the model ids in `refers`."""

    __slots__ = ("content", "refers", "state")

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.state: dict[str, Any] = {}
        self.update(state)

    def update(self, state: Mapping[str, Any]) -> None:
        """Take new values of some keys."""
        self.state.update(state)
        self.refers: tuple[tuple[Path, str], ...] = tuple(references(self.state))
        text = json.dumps(
            {key: _comparable(self.state[key]) for key in sorted(self.state.keys() - UNCOMPARED)},
            sort_keys=True,
            default=repr,
        )
        self.content = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()

    @property
    def kind(self) -> str:
        """The name of the model's class in the front end, such as `FloatProgressModel`."""
        return str(self.state.get("_model_name"))


class WidgetModels:
    """All widget models of one process. Not thread-safe.

    Source of the messages: Jupyter's widget protocol, version 2 (`packages/schema/messages.md` of ipywidgets).
    """

    def __init__(self) -> None:
        self._models: dict[str, WidgetModel] = {}
        self._captured: dict[str, Captured] = {}
        self._capturing: list[str] = []

    def __getitem__(self, model: str) -> WidgetModel:
        return self._models[model]

    def __contains__(self, model: object) -> bool:
        return model in self._models

    def take(
        self, kind: str, content: Mapping[str, Any], buffers: Sequence[bytes | memoryview]
    ) -> str | None:
        """Take a message of a comm.

        Args:
          kind: `comm_open`, `comm_msg` or `comm_close`.
          content: The content, as in the protocol.
          buffers: The raw bytes of the state.

        Returns:
          The id of the model that has changed; None if none has.

        Raises:
          KeyError: The message lacks a field.
        """
        model = content["comm_id"]
        if kind == "comm_close":
            self._captured.pop(model, None)
            if model in self._capturing:
                self._capturing.remove(model)
            return model if self._models.pop(model, None) is not None else None
        data = content.get("data") or {}
        if kind == "comm_open":
            if content.get("target_name") != TARGET:
                return None
            self._models[model] = WidgetModel(_whole(data, buffers))
            return str(model)
        if model not in self._models or data.get("method") not in ("update", "echo_update"):
            return None
        self._models[model].update(_whole(data, buffers))
        self._note_capture(model)
        return str(model)

    def capture(self, message: Mapping[str, Any]) -> str | None:
        """Take an output of the process, if one of its widgets captures it.

        Returns:
          The id of that widget's model; None if no widget captures.

        Raises:
          KeyError: The message lacks a field.
        """
        model = self._capturing[-1] if self._capturing else None
        if model is None:
            return None
        outputs = self._models[model].state.get("outputs") or ()
        captured = self._captured.setdefault(model, Captured())
        self._models[model].update({"outputs": captured.add(outputs, message)})
        return model

    def _note_capture(self, model: str) -> None:
        """Note whether a widget captures; capturing widgets are nested in the order in which they began."""
        captures = self._models[model].kind == KIND and bool(
            self._models[model].state.get("msg_id")
        )
        if captures and model not in self._capturing:
            self._capturing.append(model)
        elif not captures and model in self._capturing:
            self._capturing.remove(model)

    def parts(self, root: str) -> dict[Path, str]:
        """Return the models of a displayed widget by the first path to each; parts precede their holders."""
        found: dict[Path, str] = {}
        seen: set[str] = set()

        def visit(path: Path, model: str) -> None:
            if model in seen or model not in self._models or len(seen) >= MOST_MODELS:
                return
            seen.add(model)
            for more, inner in self._models[model].refers:
                visit((*path, *more), inner)
            found[path] = model

        visit((), root)
        return found

    def digest(self, root: str) -> bytes:
        """Return a digest that is equal for widgets with the same look and structure."""
        numbers: dict[str, int] = {}
        digest = hashlib.blake2b(digest_size=16)
        for path, model in self.parts(root).items():
            numbers[model] = len(numbers)
            refers = [(at, numbers.get(inner)) for at, inner in self._models[model].refers]
            digest.update(repr((path, refers)).encode())
            digest.update(self._models[model].content)
        return digest.digest()


def references(state: Any, path: Path = ()) -> list[tuple[Path, str]]:
    """Return the models that a state refers to, each with its path; keys are in alphabetical order."""
    if isinstance(state, str):
        return [(path, state.removeprefix(REFERENCE))] if state.startswith(REFERENCE) else []
    if isinstance(state, Mapping):
        each = ((key, state[key]) for key in sorted(state, key=str))
    elif isinstance(state, list | tuple):
        each = enumerate(state)  # type: ignore[assignment]
    else:
        return []
    return [found for key, value in each for found in references(value, (*path, key))]


def referring(state: Any, names: Mapping[str, str]) -> Any:
    """Return a state with the ids of the models it refers to replaced; `names` maps present ids to new ones."""
    if isinstance(state, str) and state.startswith(REFERENCE):
        inner = state.removeprefix(REFERENCE)
        return REFERENCE + names.get(inner, inner)
    if isinstance(state, Mapping):
        return {key: referring(value, names) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [referring(value, names) for value in state]
    return state


def _whole(data: Mapping[str, Any], buffers: Sequence[bytes | memoryview]) -> dict[str, Any]:
    """Return the state in a message, with its raw bytes in their places."""
    state: dict[str, Any] = dict(data["state"])
    for path, buffer in zip(data.get("buffer_paths") or (), buffers, strict=False):
        *way, last = path
        holder: Any = state
        for key in way:
            holder = holder[key]
        holder[last] = bytes(buffer)
    return state


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return REFERENCE if value.startswith(REFERENCE) else value
    if isinstance(value, bytes):
        return hashlib.blake2b(value, digest_size=16).hexdigest()
    if isinstance(value, Mapping):
        return {str(key): _comparable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(inner) for inner in value]
    return value


KINDS = ("HTMLModel", "FloatProgressModel", "HTMLModel")
"""The models in the box that is a bar of `tqdm.notebook`: text, progress, text."""

OPEN = ("", "info")
"""The styles of a bar that is not done."""

_WIDTH = 20


class WidgetBar(NamedTuple):
    """A bar: its progress (`value` of `most`), whether it is still running, and its line of text."""

    value: float
    most: float
    open: bool
    text: str


def bar_of(models: WidgetModels, root: str) -> WidgetBar | None:
    """Return a widget as a `tqdm.notebook` progress bar; None if it is any other widget.

    Source: `tqdm.notebook.tqdm_notebook.status_printer` and `display` (tqdm 4.67).
    """
    if root not in models or models[root].kind != "HBoxModel":
        return None
    inner = [str(child).removeprefix(REFERENCE) for child in models[root].state.get("children", ())]
    if any(child not in models for child in inner):
        return None
    if tuple(models[child].kind for child in inner) != KINDS:
        return None
    left, progress, right = (models[child].state for child in inner)
    value, most = float(progress.get("value") or 0.0), float(progress.get("max") or 0.0)
    style = progress.get("bar_style") or ""
    known = style != "info" and most > 0
    done = min(max(round(_WIDTH * value / most), 0), _WIDTH) if known else 0
    drawn = f"|{'█' * done}{' ' * (_WIDTH - done)}| " if known else ""
    text = f"{_plain(left)}{drawn}{_plain(right).lstrip()}".strip()
    return WidgetBar(value, most, style in OPEN and not (known and value >= most), text)


def _plain(state: dict[str, object]) -> str:
    return html.unescape(str(state.get("value") or "")).replace("\u2007", " ")
