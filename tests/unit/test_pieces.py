from __future__ import annotations

import json

import pytest
from msgspec import structs

from nbdist.contract.snapshot import Array, Axis, Indexed, Mesh, NamedSharding, Piece, Snapshot
from nbdist.contract.wire import decode
from nbdist.errors import SpecError
from nbdist.pieces import Part, piece_bytes, pieces, sentence, split
from tests.places import GOLDEN


def read(name):
    """A golden's snapshot, its meshes by id, and what is expected of each array."""
    content = json.loads((GOLDEN / f"{name}.json").read_text())
    snapshot = decode(Snapshot, content["snapshot"])
    return snapshot, {mesh.id: mesh for mesh in snapshot.meshes}, content["expected"]


ARRAYS = [
    pytest.param(array, meshes, expected, id=f"{path.stem}-{array.path}")
    for path in sorted(GOLDEN.glob("*.json"))
    for snapshot, meshes, every in [read(path.stem)]
    for array, expected in zip(snapshot.arrays, every, strict=True)
]


def pairs(slices):
    return tuple((start, stop) for start, stop in slices)


@pytest.mark.parametrize(("array", "meshes", "expected"), ARRAYS)
def test_every_device_holds_what_jax_says(array, meshes, expected):
    truth = {key: pairs(slices) for key, slices in expected["slices"].items()}
    held = {key: part.slices for part in pieces(array, meshes) for key in part.devices}
    assert held == truth


@pytest.mark.parametrize(("array", "meshes", "expected"), ARRAYS)
def test_pieces_are_those_of_the_golden_in_order(array, meshes, expected):
    assert pieces(array, meshes) == tuple(
        Part(slices=pairs(piece["slices"]), addend=piece["addend"], devices=tuple(piece["devices"]))
        for piece in expected["pieces"]
    )


@pytest.mark.parametrize(("array", "meshes", "expected"), ARRAYS)
def test_counting_agrees_with_listing(array, meshes, expected):
    cut = split(array, meshes)
    parts = pieces(array, meshes)
    assert cut.pieces == len({part.slices for part in parts})
    assert cut.devices == sum(len(part.devices) for part in parts)
    assert cut.addends == len({part.addend for part in parts})
    copies = {len(part.devices) for part in parts}
    assert copies == {cut.copies} or (cut.copies is None and len(copies) > 1)
    sizes = {piece_bytes(array, part.slices) for part in parts}
    assert max(sizes) == cut.piece_bytes
    assert cut.even == (len(sizes) == 1)


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("tour", "params.dense1.kernel", "8 shards of 128 × 128, 64 KB each, not replicated"),
        ("tour", "params.dense1.bias", "2 shards of 128, 512 B each, 4 replicas of each"),
        ("tour", "embedding", "replicated on 8 devices, 16 MB each"),
        ("single_device", "only_here", "whole on one device, 1 KB"),
        ("per_process", "rng", "4 processes, each with its own, whole, 8 B each"),
        ("indexed", "copied", "2 shards of 4 × 8, 128 B each, 4 replicas of each"),
        (
            "unreduced",
            "gradient",
            "4 partial sums over 'data', each in 2 shards of 8 × 8, 256 B each, not replicated",
        ),
        (
            "unreduced",
            "loss",
            "8 partial sums over 'data', 'model', each whole, 4 B each, not replicated",
        ),
        (
            "unreduced",
            "mixed",
            "2 partial sums over 'a', each in 2 shards of 2 × 4, 32 B each, 2 replicas of each",
        ),
        (
            "memory_kinds",
            "pinned",
            "4 shards of 4 × 4, 64 B each, not replicated, in pinned_host memory",
        ),
        ("axes_1", "scale", "replicated on 8 devices, 4 B each"),
        ("uneven", "shorter", "8 shards of different shapes, up to 32 B each, not replicated"),
        (
            "uneven",
            "many_empty",
            "6 shards of different shapes, up to 4 B each, some with more replicas than others",
        ),
    ],
)
def test_the_sentence_says_how_an_array_lies(name, path, text):
    snapshot, meshes, _ = read(name)
    [array] = [array for array in snapshot.arrays if array.path == path]
    assert sentence(array, meshes) == text


def test_pieces_of_different_shapes_are_said_to_be_so():
    sharding = Indexed(
        pieces=(
            Piece(slices=((0, 6),), devices=("0:0",)),
            Piece(slices=((6, 8),), devices=("0:1", "0:2")),
        ),
        memory_kind=None,
    )
    array = Array(path="x", shape=(8,), dtype="float32", nbytes=32, sharding=sharding)
    text = "2 shards of different shapes, up to 24 B each, some with more replicas than others"
    assert sentence(array, {}) == text


def test_an_array_without_elements_has_pieces_of_no_bytes():
    snapshot, meshes, _ = read("axes_2")
    empty = structs.replace(snapshot.arrays[0], shape=(0, 256), nbytes=0)
    assert split(empty, meshes).piece_bytes == 0
    assert {part.slices[0] for part in pieces(empty, meshes)} == {(0, 0)}


MESH = Mesh(
    id="m",
    axes=(Axis(name="data", size=4, type="auto"), Axis(name="model", size=2, type="auto")),
    devices=tuple(f"0:{n}" for n in range(8)),
)


def array(spec, *, shape=(512, 256), mesh="m", unreduced=(), processes=()):
    sharding = NamedSharding(mesh=mesh, spec=spec, unreduced=unreduced, memory_kind=None)
    return Array(
        path="w",
        shape=shape,
        dtype="float32",
        nbytes=0,
        sharding=sharding,
        processes=processes,
    )


@pytest.mark.parametrize("function", [pieces, split, sentence])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            array((("modle",), ()), processes=(3,)),
            r"^axis 'modle' is not in mesh data=4 × model=2\. Did you mean 'model'\? "
            r"Used by P\('modle', None\) of array 'w' on process 3\.$",
        ),
        (array(((), ()), unreduced=("x",)), r"axis 'x' is not in mesh .*unreduced=\{'x'\}"),
        (array(((), ()), mesh="m9"), r"mesh 'm9' of array 'w' .*Known meshes: data=4 × model=2"),
        (array(((),)), r"P\(None\) has 1 entry, but array 'w' has 2 dimensions"),
    ],
)
def test_an_impossible_spec_is_refused_with_what_is_allowed(function, value, text):
    with pytest.raises(SpecError, match=text):
        function(value, {"m": MESH})
