"""`nbdist.keras` where a person reads its help, in a notebook without TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_its_help_is_read_whatever_back_end_keras_takes_by_default(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", "import nbdist; help(nbdist.keras.Checkpoint)"],
        env={**env, "KERAS_HOME": str(tmp_path), "PAGER": "cat"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "weights and optimizer" in done.stdout, done.stderr
