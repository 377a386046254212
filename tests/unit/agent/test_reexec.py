"""Variables that a process has to have when it begins."""

from __future__ import annotations

import sys

import pytest

from nbdist.agent import kernel_link as anew


def test_variables_that_count_at_the_start_only_are_known_to_come_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/a")
    assert anew.too_late({"PYTHONPATH": "/b"})
    assert anew.too_late({"LD_PRELOAD": "x"})
    assert not anew.too_late({"PYTHONPATH": "/a", "JAX_ENABLE_X64": "1"})
    monkeypatch.setattr(sys, "argv", ["host", anew.OPTION, "3"])
    assert not anew.too_late({"PYTHONPATH": "/b"})
