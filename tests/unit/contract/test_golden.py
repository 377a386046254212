from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import jsonschema
import pytest

from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode, encode
from tests.places import GOLDEN, ROOT

FILES = sorted(GOLDEN.glob("*.json"))
SCHEMA = json.loads((ROOT / "labextension/src/view/model/snapshot.schema.json").read_text())


@pytest.fixture(scope="module")
def large():
    spec = importlib.util.spec_from_file_location("golden_large", GOLDEN / "large.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.large


def test_making_the_goldens_again_changes_nothing(tmp_path):
    subprocess.run([sys.executable, GOLDEN / "make.py", tmp_path], check=True, timeout=120)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_snapshot_passes_both_ways_and_the_schema(path):
    content = json.loads(path.read_text())
    snapshot = decode(Snapshot, content["snapshot"])
    assert encode(snapshot) == content["snapshot"]
    jsonschema.validate(content["snapshot"], SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_has_an_expectation_for_each_array_in_order(path):
    content = json.loads(path.read_text())
    paths = [array["path"] for array in content["snapshot"]["arrays"]]
    assert [expected["path"] for expected in content["expected"]] == paths
    for expected in content["expected"]:
        held = [key for piece in expected["pieces"] for key in piece["devices"]]
        assert sorted(held) == sorted(expected["slices"])


@pytest.mark.parametrize(("hosts", "devices"), [(64, 256), (2240, 8960)])
def test_a_large_snapshot_has_the_size_asked_for_and_follows_the_schema(large, hosts, devices):
    snapshot = large(hosts, 4, 2000)
    assert len(snapshot.processes) == hosts
    assert len(snapshot.devices) == devices
    assert len({array.path for array in snapshot.arrays}) == 2000
    assert decode(Snapshot, json.loads(json.dumps(encode(snapshot)))) == snapshot
