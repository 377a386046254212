"""Orbax where it is not, where it fails, and where it does not come back."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from nbdist.engine.saving import exchange as orbax
from nbdist.engine.saving.exchange import Exchange
from nbdist.errors import SessionError


def exchange(timeout_s: float = 60.0) -> Exchange:
    return Exchange(None, 0, 1, "token", timeout_s)


def test_without_it_one_error_says_what_to_type() -> None:
    orbax.refuse_without_orbax()
    with (
        mock.patch("importlib.util.find_spec", return_value=None),
        pytest.raises(SessionError, match=r"pip install 'nbdist\[save\]'"),
    ):
        orbax.refuse_without_orbax()


def test_what_it_raises_is_said_with_the_process(tmp_path: Path) -> None:
    (tmp_path / "it").mkdir()
    with pytest.raises(SessionError, match="Orbax has failed on process 0: ValueError"):
        orbax.write_arrays(tmp_path / "it", {"0": np.ones(3)}, exchange())


def test_it_is_waited_for_no_longer_than_allowed() -> None:
    ends = threading.Event()
    with pytest.raises(SessionError, match=r"Allow more than 0\.0 s"):
        orbax._on_a_thread(ends.wait, exchange(0.0))
    ends.set()
