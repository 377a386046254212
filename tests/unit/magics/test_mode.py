"""`%dist_mode` in IPython's terminal."""

from __future__ import annotations

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from nbdist.magics.mode import Mode


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("x = 1", "complete"), ("for i in range(3):", "incomplete"), ("x = (1,", "incomplete")],
)
def test_a_cell_is_complete_where_it_is_without_the_mode(typed: str, expected: str) -> None:
    mode, manager = Mode(), TransformerManager()
    mode.enabled = True
    manager.cleanup_transforms.insert(0, mode.transform)
    assert manager.check_complete(typed)[0] == expected
    assert manager.transform_cell("x = 1").startswith("get_ipython().run_cell_magic('dist_plain'")
