"""Models in the notebook's kernel that stand for those of processes, and look like them in every front end."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipywidgets import Widget

from nbdist.view.widget_models import Path, referring
from nbdist.view.widgets import Event, LiveWidget

NAMESPACE = uuid.UUID("c2f6c1f0-6c3c-4d0e-9a0e-6a1f1d1b7f11")
"""Of the ids of models here, so that one widget has the same ones whenever it is shown."""

KIND = ("_model_name", "_model_module", "_model_module_version")
"""What front ends find a model's class by."""


class Mirror(Widget):
    """One model. Its state is a plain dict; what the front end sends goes to `act`."""

    def __init__(self, model_id: str, state: dict[str, Any], act: Callable[..., None]) -> None:
        self._mirrored = state
        self._act = act
        super().__init__(model_id=model_id)
        self.on_msg(self._custom)

    def open(self) -> None:
        """Makes the model in the front ends; called once, by `Widget`."""
        for name in KIND:
            self.set_trait(name, self._mirrored[name])
        super().open()

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """The state, or some keys of it; all of it counts as changed."""
        if key is None:
            return dict(self._mirrored)
        keys = [key] if isinstance(key, str) else key
        return {one: self._mirrored[one] for one in keys if one in self._mirrored}

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Takes what a person has changed in a front end: the processes have it, or it is put back."""
        before = {key: self._mirrored.get(key) for key in sync_data}
        self._mirrored.update(sync_data)
        try:
            self._act({"method": "update", "state": dict(sync_data), "buffer_paths": []}, ())
        except BaseException:
            self.follow(before)
            raise

    def _custom(self, _: Any, content: Any, buffers: Any) -> None:
        self._act({"method": "custom", "content": content}, tuple(map(bytes, buffers or ())))

    def follow(self, state: Mapping[str, Any]) -> None:
        """Takes the state of the model it stands for; sends what is new."""
        new = [key for key, value in state.items() if self._mirrored.get(key) != value]
        self._mirrored.update(state)
        if new:
            self.send_state(new)


class Mirrors:
    """All of one session. From any thread.

    Args:
      act: Takes what a person does.
    """

    def __init__(self, act: Callable[[Event], None]) -> None:
        self._act = act
        self._lock = threading.RLock()
        self._models: dict[str, dict[str, Mirror]] = {}
        self._members: dict[str, tuple[LiveWidget, ...]] = {}
        self._shown: dict[str, tuple[str, int]] = {}

    def show(self, widgets: Sequence[LiveWidget]) -> str:
        """Brings the models of widgets that are alike up to the one that is furthest behind.

        Returns:
          The id of the model to be displayed. It is the same as long as the lowest process is.
        """
        first = min(widgets, key=lambda one: one.process_id)
        root = _name(first, ())
        with self._lock:
            if root not in self._members:
                self._close_those_taken_away()
            self._members[root] = tuple(widgets)
            source = furthest_behind(widgets)
            now = (source.root, source.changes)
            if self._shown.get(root) != now and not source.closed:
                self._follow(first, source)
                self._shown[root] = now
        return root

    def _follow(self, first: LiveWidget, source: LiveWidget) -> None:
        parts = source.parts()
        names = {model: _name(first, path) for path, (model, _) in parts.items()}
        root = _name(first, ())
        there = self._models.setdefault(root, {})
        for path, (model, state) in parts.items():
            name, mirrored = names[model], referring(state, names)
            if name in there:
                there[name].follow(mirrored)
            else:
                there[name] = Mirror(name, mirrored, self._acting(root, path))

    def _close_those_taken_away(self) -> None:
        """A loop may make thousands of bars, each of which its process takes away again."""
        gone = [root for root, members in self._members.items() if all(m.closed for m in members)]
        for root in gone:
            for model in self._models.pop(root, {}).values():
                model.close()
            del self._members[root]
            self._shown.pop(root, None)

    def _acting(self, root: str, path: Path) -> Callable[..., None]:
        def act(data: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
            parts = {one.process_id: one.parts() for one in self._members[root] if not one.closed}
            models = {p: found[path][0] for p, found in parts.items() if path in found}
            self._act(Event(models, data, buffers))

        return act


def furthest_behind(widgets: Sequence[LiveWidget]) -> LiveWidget:
    """Of bars the one that has done least, of others the one that has changed least; else the lowest process."""

    def done(one: LiveWidget) -> tuple[float, int, int]:
        bar = one.bar
        return (bar.value if bar is not None else 0.0), one.changes, one.process_id

    return min(widgets, key=done)


def _name(widget: LiveWidget, path: Path) -> str:
    return uuid.uuid5(NAMESPACE, f"{widget.root} {path!r}").hex
