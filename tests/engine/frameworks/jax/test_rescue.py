"""What a process that is given up saves of itself."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from nbdist.engine.frameworks.jax.arrays import _pieces, rescue


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_arrays_of_jax_and_numpy_are_saved_by_path_in_a_private_file() -> None:
    found = rescue({"deep": {"w": jax.numpy.arange(4)}, "host": np.ones(3), "n": 7}, 2)
    path = Path(found.path)
    assert path.name == "process-2.npz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with np.load(path) as saved:
        assert sorted(saved) == ["deep['w'][0:4]", "host"]
        assert saved["deep['w'][0:4]"].tolist() == [0, 1, 2, 3]
    assert (found.arrays, found.left_out) == (2, ())


def test_what_has_no_values_is_named_and_the_rest_is_saved() -> None:
    gone = jax.numpy.arange(4)
    gone.delete()
    found = rescue({"gone": gone, "there": np.ones(3)}, 0)
    assert found.left_out == ("gone",)
    with np.load(found.path) as saved:
        assert sorted(saved) == ["there"]


def test_an_array_without_values_is_not_said_to_be_computed() -> None:
    gone = jax.numpy.arange(4)
    gone.delete()
    with pytest.raises(ValueError, match="gone has no values"):
        _pieces("gone", gone)


def test_it_imports_no_framework() -> None:
    code = (
        "import sys\nfrom nbdist.engine.frameworks.jax.arrays import rescue\n"
        "import numpy\nprint(rescue({'x': numpy.ones(2)}, 0).path)\nassert 'jax' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    shutil.rmtree(Path(ran.stdout.strip()).parent)
