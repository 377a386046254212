from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import jsonschema
import numpy as np
import pytest
from msgspec import structs

from nbdist.contract.program import MeshAxes, Program
from nbdist.contract.snapshot import (
    VERSION,
    Array,
    Axis,
    Indexed,
    Mesh,
    NamedSharding,
    PerProcess,
    Piece,
    Report,
    SingleDevice,
    Snapshot,
)
from nbdist.contract.wire import Data, decode, encode
from nbdist.errors import WireError
from tests.builders.reports import running
from tests.places import ROOT

ARRAY = Array(
    path="params['dense'].kernel",
    shape=(512, 256),
    dtype="float32",
    nbytes=524288,
    sharding=NamedSharding(
        mesh="m1", spec=(("data",), ("model", "extra")), unreduced=(), memory_kind=None
    ),
)
MESH = Mesh(id="m1", axes=(Axis(name="data", size=2, type="auto"),), devices=("0:0", "1:2048"))
ACTIVITY = running(cell=3, line=2, source="x = f(x)")
REPORT = Report(
    version=VERSION,
    process_id=3,
    sequence=7,
    host="h2",
    pid=99,
    activity=ACTIVITY,
    meshes=(MESH,),
    arrays=(ARRAY,),
)
SHARDINGS = [
    ARRAY.sharding,
    SingleDevice(device="0:0", memory_kind="pinned_host"),
    PerProcess(devices=("0:0", "1:2048"), memory_kind=None),
    Indexed(pieces=(Piece(slices=((0, 1), (0, 256)), devices=("0:0",)),), memory_kind=None),
]


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda value: value.kind)
def test_a_report_survives_json_unchanged(sharding):
    report = structs.replace(REPORT, arrays=(structs.replace(ARRAY, sharding=sharding),))
    assert decode(Report, json.loads(json.dumps(encode(report)))) == report


def test_encode_writes_every_field_and_only_plain_data():
    data = encode(REPORT)
    assert data["devices"] is None and data["arrays_omitted"] is None
    assert data["arrays"][0]["sharding"]["spec"] == [["data"], ["model", "extra"]]


def test_decode_fills_in_defaults_for_missing_fields():
    data = encode(REPORT)
    del data["arrays"], data["arrays_omitted"]
    assert decode(Report, data) == structs.replace(REPORT, arrays=None)


def test_decode_reads_a_shortened_float_as_float():
    data = encode(REPORT)
    data["activity"]["cell_seconds"] = 3
    assert type(decode(Report, data).activity.cell_seconds) is float


def changed(path, value):
    """The encoded report with the value at `path` (keys and indices) replaced."""
    data = encode(REPORT)
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["pid"], "99", r"^Report\.pid: expected int, got str\.$"),
        (["pid"], True, r"^Report\.pid: expected int, got bool"),
        (["host"], None, r"^Report\.host: expected str, got null"),
        (["activity", "state"], "lost", r"^Report\.activity\.state: invalid enum value 'lost'"),
        (["activity", "cell"], 1.5, r"^Report\.activity\.cell: expected int \| null, got float"),
        (["arrays"], 4, r"^Report\.arrays: expected array \| null, got int"),
        (["arrays", 0, "shape"], 512, r"^Report\.arrays\[0\]\.shape: expected array"),
        (["arrays", 0, "shape", 1], "x", r"^Report\.arrays\[0\]\.shape\[1\]: expected int"),
        (["arrays", 0, "sharding", "kind"], "pmap", r"sharding\.kind: invalid value 'pmap'"),
        (["arrays", 0, "sharding"], [], r"sharding: expected object, got array"),
        (["colour"], 1, r"^Report: object contains unknown field colour"),
        (["meshes", 0], "m1", r"^Report\.meshes\[0\]: expected object, got str"),
    ],
)
def test_decode_names_the_path_and_what_is_allowed(path, value, text):
    with pytest.raises(WireError, match=text):
        decode(Report, changed(path, value))


def test_decode_names_a_missing_field():
    data = encode(REPORT)
    del data["arrays"][0]["dtype"]
    with pytest.raises(
        WireError, match=r"^Report\.arrays\[0\]: object missing required field dtype"
    ):
        decode(Report, data)


def test_decode_refuses_a_pair_of_three():
    sharding = SHARDINGS[3]
    data = encode(structs.replace(REPORT, arrays=(structs.replace(ARRAY, sharding=sharding),)))
    data["arrays"][0]["sharding"]["pieces"][0]["slices"][1].append(3)
    with pytest.raises(WireError, match=r"pieces\[0\]\.slices\[1\]: expected array of length 2"):
        decode(Report, data)


@pytest.mark.parametrize("value", [object(), np.int64(3), float("inf"), float("nan")])
def test_encode_refuses_what_json_has_no_form_for(value):
    with pytest.raises(WireError, match=r"^Report cannot be sent: "):
        encode(structs.replace(REPORT, arrays=(structs.replace(ARRAY, shape=(value,)),)))


class Requests(Data):
    """By process id."""

    requests: Mapping[int, str]


@pytest.mark.parametrize("requests", [{}, {0: "a", 12: "b", -3: "c"}])
def test_whole_numbers_as_keys_come_back_as_whole_numbers(requests):
    sent = Requests(requests=requests)
    assert decode(Requests, json.loads(json.dumps(encode(sent)))) == sent


@pytest.mark.parametrize("key", ["", "a", "1.0", "01", "٣", "1\n", " 1"])
def test_a_key_that_is_no_whole_number_is_refused(key):
    with pytest.raises(WireError, match=r"^key in Requests\.requests: expected int"):
        decode(Requests, {"requests": {key: "a"}})


class Spec(Data):
    """As a save has it."""

    entries: tuple[str | tuple[str, ...] | None, ...]


def test_a_text_or_a_list_of_texts_is_told_by_what_comes():
    spec = Spec(entries=("a", ("b", "c"), None))
    assert decode(Spec, json.loads(json.dumps(encode(spec)))) == spec
    with pytest.raises(WireError, match=r"^Spec\.entries\[0\]\[1\]: expected str"):
        decode(Spec, {"entries": [["a", 1]]})


def test_the_committed_schema_is_what_the_contract_makes(tmp_path):
    tool = ROOT / "labextension/tools/make_schema.py"
    subprocess.run([sys.executable, tool, tmp_path], check=True, timeout=60)
    kept = ROOT / "labextension/src/view/model/snapshot.schema.json"
    assert (tmp_path / kept.name).read_text() == kept.read_text()


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda value: value.kind)
def test_the_schema_accepts_what_encode_writes_and_refuses_a_missing_field(sharding):
    schema = json.loads((ROOT / "labextension/src/view/model/snapshot.schema.json").read_text())
    array = structs.replace(ARRAY, sharding=sharding)
    data = encode(
        Snapshot(session="s", sequence=1, time=1.5, state="idle", meshes=(MESH,), arrays=(array,))
    )
    jsonschema.validate(data, schema)
    del data["arrays_omitted"]
    with pytest.raises(jsonschema.ValidationError, match="arrays_omitted"):
        jsonschema.validate(data, schema)


def test_fields_that_do_not_belong_together_are_an_error_of_the_wire():
    data = {"names": ["x"], "shape": [4], "devices": [0, 1]}
    with pytest.raises(WireError, match=r"^MeshAxes: a mesh of axes"):
        decode(MeshAxes, data)
    with pytest.raises(WireError, match=r"^Program\.mesh: a mesh of axes"):
        decode(Program, {**encode(Program(name="f", fits=True)), "mesh": data})
