"""Who writes where, and that `nbdist.keras` asks for Keras only when it needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nbdist.keras import (
    ELSEWHERE,
    READS,
    WRITES,
    checkpoint_dir,
    temporary_name,
    tf_config_role,
)

WORKERS = {"worker": ["a:1", "b:1"], "evaluator": ["c:1"]}


def config(cluster, kind: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("cluster", "kind", "index", "role"),
    [
        (WORKERS, "worker", 0, WRITES),
        (WORKERS, "worker", 1, ELSEWHERE),
        (WORKERS, "evaluator", 0, READS),
        ({"chief": ["z:1"], "worker": ["a:1"]}, "chief", 0, WRITES),
        ({"chief": ["z:1"], "worker": ["a:1"]}, "worker", 0, ELSEWHERE),
    ],
)
def test_roles_are_those_of_tf_config(cluster, kind, index, role):
    assert tf_config_role(config(cluster, kind, index)) == role


def test_without_a_cluster_there_is_no_role_in_tf_config():
    assert tf_config_role(None) is None
    assert tf_config_role("{}") is None


def test_another_worker_has_a_directory_of_its_own(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config(WORKERS, "worker", 1))
    own = checkpoint_dir("/base")
    assert own != "/base"
    assert own == checkpoint_dir("/base")
    assert own != checkpoint_dir("/other")
    monkeypatch.setenv("TF_CONFIG", config(WORKERS, "worker", 0))
    assert checkpoint_dir(Path("/base")) == "/base"


def test_it_lies_in_the_session_s_folder_which_goes_also_where_the_process_is_killed(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("TF_CONFIG", config(WORKERS, "worker", 1))
    monkeypatch.setenv("NBDIST_LOG", str(tmp_path / "engine-1.log"))
    assert Path(checkpoint_dir("/base of a session")).parent == tmp_path


def test_a_file_is_written_beside_its_place_under_the_same_suffixes(tmp_path):
    beside = temporary_name(tmp_path / "7.weights.h5")
    assert beside.parent == tmp_path
    assert beside.name.startswith(".")
    assert beside.name.endswith(".7.weights.h5")
    assert list(tmp_path.iterdir()) == []


OWN_DIRECTORY = """
import os, sys
os.environ["TF_CONFIG"] = sys.argv[1]
import nbdist.keras
print(nbdist.keras.checkpoint_dir("/base"))
assert not {"keras", "jax", "tensorflow"} & set(sys.modules)
"""


def test_the_directory_goes_with_its_process_which_imports_no_framework():
    done = subprocess.run(
        [sys.executable, "-c", OWN_DIRECTORY, config(WORKERS, "worker", 1)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()


HOLDING = """
import keras, numpy as np
from nbdist.keras.checkpoint import holding
variable = keras.Variable(np.zeros(2))
with holding([variable], {id(variable): np.ones(2)}):
    assert variable.numpy().tolist() == [1, 1]
assert variable.numpy().tolist() == [0, 0]
class Other:
    __slots__ = ()
with holding([Other()], {}):
    pass
other = Other()
with holding([other], {id(other): np.ones(2)}):
    pass
"""


def test_a_variable_holds_another_value_for_a_while_and_is_left_alone_without_that_attribute():
    environment = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PATH": "", "HOME": "/"}
    done = subprocess.run(
        [sys.executable, "-c", HOLDING],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
