"""A framework is added as CONTRIBUTING says: two files, and a session computes with it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbdist

TOY = Path(__file__).parent / "toy"

SESSION = """
import json
import nbdist
from nbdist.launch.model.start_options import FLAGS

found = {"file": nbdist.__file__, "choices": list(FLAGS["framework"].argparse["choices"])}


def refused(what):
    try:
        what()
    except nbdist.errors.NbdistError as error:
        return f"{type(error).__name__}: {error}"


found["unknown"] = refused(lambda: nbdist.start(2, framework="toi"))
found["foreign"] = refused(lambda: nbdist.start(2, framework="toy", backend="jax"))
with nbdist.start(2, framework="toy", platform="cpu") as session:
    session.run("import toy, os; x = toy.Array([1.0, 2.0]); rank = os.environ['TOY_RANK']")
    session.run("assert toy.total([x]) == 3.0")
    found["status"] = session.status()
    found["arrays"] = [[one.path, list(one.shape), one.sharding.kind] for one in session.snapshot().arrays]
    found["devices"] = [one.kind for one in session.snapshot().devices]
    found["ranks"] = [session.pull("rank", on=p) for p in ("0", "1")]
    found["x"] = session.pull("x").tolist()
    found["described"] = session.describe()
    found["shards"] = refused(lambda: session.shards("x"))
    found["nan"] = refused(lambda: session.nan("x"))
    found["recover"] = refused(session.recover)
print(json.dumps(found))
"""


def with_the_toy(folder: Path) -> None:
    """A copy of nbdist, to which the two files are added; the toy itself lies beside it."""
    source = Path(nbdist.__file__).parent
    shutil.copytree(
        source, folder / "nbdist", ignore=shutil.ignore_patterns("__pycache__", "labextension")
    )
    engine = folder / "nbdist/engine/frameworks/toy"
    engine.mkdir()
    shutil.copy(TOY / "engine.py", engine / "__init__.py")
    shutil.copy(TOY / "launch.py", folder / "nbdist/launch/frameworks/toy.py")
    shutil.copy(TOY / "toy.py", folder / "toy.py")


def test_a_framework_of_two_files_computes_in_a_session(tmp_path: Path) -> None:
    with_the_toy(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["file"] == str(tmp_path / "nbdist/__init__.py")
    assert found["choices"] == ["jax", "keras", "tensorflow", "toy"]
    assert found["unknown"].endswith("known are jax, keras, tensorflow, toy.")
    assert "this is for framework='keras'" in found["foreign"]
    assert found["ranks"] == ["0", "1"]
    assert found["x"] == [1.0, 2.0]
    assert found["arrays"] == [["x", [2], "per_process"]]
    assert found["devices"] == ["brick", "brick"]
    assert "2 toys" in found["described"]
    assert found["shards"].startswith("ArrayError: ") and "toy.Array" in found["shards"]
    assert found["nan"].endswith("computes with Toy.")
    assert "for Toy. session.restart()" in found["recover"]
