"""`tqdm.auto` and `tqdm.notebook` on an engine: widgets where the notebook shows them, bars of text elsewhere."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NOTEBOOK = "tqdm.notebook"
NAMES = frozenset({"tqdm.autonotebook", NOTEBOOK})

EITHER = ("display", "__iter__", "update", "close", "clear", "reset")
"""Methods in which a bar of widgets differs from one of text (tqdm 4.67)."""


def choose_progress_bars(widgets: Callable[[], bool]) -> None:
    """Make each new bar of `tqdm.auto` and `tqdm.notebook` a widget or a line of text.

    tqdm takes an engine for a notebook (`tqdm.autonotebook` looks for `ipykernel.zmqshell`), also where a terminal
    or a script shows the output.

    Args:
      widgets: Called when a bar is made; returns whether widgets are shown.
    """
    if not any(isinstance(finder, _Bars) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Bars(widgets))


class _Bars(MetaPathFinder, Loader):
    """Import hook that gives both modules bars of either kind."""

    def __init__(self, widgets: Callable[[], bool]) -> None:
        self._widgets = widgets

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in NAMES else None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ != NOTEBOOK:
            notebook = importlib.import_module(NOTEBOOK)
            module.__dict__.update(tqdm=notebook.tqdm, trange=notebook.trange)
            return
        std = importlib.import_module("tqdm.std")
        bar = either(std.tqdm, self._notebook_bar(module), self._widgets)

        def trange(*args: Any, **options: Any) -> Any:
            return bar(range(*args), **options)

        module.__dict__.update(tqdm=bar, trange=trange, tqdm_notebook=bar, tnrange=trange)

    def _notebook_bar(self, module: ModuleType) -> type[Any] | None:
        """Return tqdm's own class of widgets; None where ipywidgets is not there."""
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(module.__name__, _path(), None)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module(module)
                break
        there = module.__dict__.get("IProgress") is not None
        return module.__dict__["tqdm_notebook"] if there else None


def _path() -> list[str]:
    return list(importlib.import_module("tqdm").__path__)


def either(text: type[Any], widget: type[Any] | None, widgets: Callable[[], bool]) -> type[Any]:
    """Return a class of bars, which users may derive from; each bar keeps the kind it is made with.

    Args:
      text: `tqdm.std.tqdm`.
      widget: `tqdm.notebook.tqdm_notebook`, a subclass of `text`; None where there is none.
      widgets: Returns whether a new bar is one of widgets.
    """

    class Bar(widget or text):  # type: ignore[misc]
        """`tqdm.notebook.tqdm` or `tqdm.std.tqdm`."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._kind = widget if widget is not None and widgets() else text
            if self._kind is text:
                options.pop("display", None)  # for widgets alone
            self.status_printer = self._kind.status_printer
            self._kind.__init__(self, *args, **options)

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            return getattr(getattr(self, "_kind", text), name)(self, *args, **options)

        return call

    for name in EITHER:
        setattr(Bar, name, method(name))
    return Bar
