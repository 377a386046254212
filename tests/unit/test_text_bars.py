"""tqdm's bars on an engine."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Iterator

import pytest

from nbdist.engine.kernel_gaps import text_progress_bars


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process on which bars are text; others find tqdm as it was."""
    finders = list(sys.meta_path)
    for name in ("tqdm.autonotebook", "tqdm.notebook", "tqdm.auto"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    text_progress_bars()
    yield
    sys.meta_path[:] = finders
    for name in ("tqdm.autonotebook", "tqdm.notebook", "tqdm.auto"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("module", ["tqdm.auto", "tqdm.autonotebook", "tqdm.notebook"])
def test_a_bar_for_notebooks_is_text(module: str) -> None:
    bars = importlib.import_module(module)
    written = io.StringIO()
    assert list(bars.tqdm([1, 2], file=written, desc="load")) == [1, 2]
    assert "load: 100%|" in written.getvalue()
    assert list(bars.trange(2, file=io.StringIO())) == [0, 1]


def test_an_option_for_widgets_alone_is_no_error() -> None:
    bars = importlib.import_module("tqdm.notebook")
    assert list(bars.tqdm_notebook([1], display=False, file=io.StringIO())) == [1]
    assert list(bars.tnrange(1, file=io.StringIO())) == [0]
