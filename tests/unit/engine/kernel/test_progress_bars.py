"""tqdm's bars on an engine."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Iterator

import pytest

from nbdist.engine.kernel.shell import choose_progress_bars, either

MODULES = ("tqdm.auto", "tqdm.autonotebook", "tqdm.notebook")


@pytest.fixture(autouse=True)
def widgets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether widgets are shown, as the last item; others find tqdm as it was."""
    finders = list(sys.meta_path)
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    shown = [False]
    choose_progress_bars(lambda: shown[-1])
    yield shown
    sys.meta_path[:] = finders
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("module", MODULES)
def test_where_no_widgets_are_shown_a_bar_is_text(module: str) -> None:
    bars = importlib.import_module(module)
    written = io.StringIO()
    assert list(bars.tqdm([1, 2], file=written, desc="load")) == [1, 2]
    assert "load: 100%|" in written.getvalue()
    assert list(bars.trange(2, file=io.StringIO())) == [0, 1]


@pytest.mark.parametrize("module", MODULES)
def test_where_widgets_are_shown_a_bar_is_one(
    module: str, widgets: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    bars = importlib.import_module(module)
    widgets.append(True)
    bar = bars.tqdm([1, 2], desc="load")
    assert list(bar) == [1, 2]
    assert bar.container.children[1].value == 2
    widgets.append(False)
    # Each stays what it was from its beginning.
    bar.close()
    assert bar.container.children[1].bar_style == "success"
    capsys.readouterr()
    assert list(bars.trange(1)) == [0]
    assert "1/1" in capsys.readouterr().err


def test_an_option_for_widgets_alone_is_no_error() -> None:
    bars = importlib.import_module("tqdm.notebook")
    assert list(bars.tqdm_notebook([1], display=False, file=io.StringIO())) == [1]
    assert list(bars.tnrange(1, file=io.StringIO())) == [0]


@pytest.mark.parametrize("shown", [False, True])
def test_a_class_of_one_s_own_may_derive_from_it(shown: bool, widgets: list[bool]) -> None:
    bars = importlib.import_module("tqdm.auto")
    widgets.append(shown)

    class Counted(bars.tqdm):
        def update(self, n: int = 1) -> None:
            self.calls = getattr(self, "calls", 0) + 1
            super().update(n)

    with Counted(total=2, file=io.StringIO()) as bar:
        bar.update()
        bar.update()
    assert (bar.calls, bar.n) == (2, 2)


def test_without_ipywidgets_a_bar_is_text() -> None:
    std = importlib.import_module("tqdm.std")
    written = io.StringIO()
    assert list(either(std.tqdm, None, lambda: True)([1], file=written)) == [1]
    assert "1/1" in written.getvalue()
