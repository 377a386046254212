"""Arrays as a tree, and the tree as text."""

from __future__ import annotations

import pytest
from msgspec import structs

from nbdist.contract.snapshot import Array, Axis, Mesh, NamedSharding
from nbdist.view.tree import grow, steps, tree_text, within

MESH = Mesh(
    id="m",
    axes=(Axis(name="data", size=2, type="auto"), Axis(name="model", size=2, type="auto")),
    devices=("0:0", "0:1", "1:0", "1:1"),
)
MESHES = {"m": MESH}


def array(path: str, *spec: str | None, size: int = 4, processes: tuple[int, ...] = ()) -> Array:
    shape = (size,) * len(spec)
    return Array(
        path=path,
        shape=shape,
        dtype="float32",
        nbytes=4 * size ** len(spec),
        sharding=NamedSharding(
            mesh="m",
            spec=tuple((axis,) if axis else () for axis in spec),
            unreduced=(),
            memory_kind=None,
        ),
        processes=processes,
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("w", ["w"]),
        ("model.blocks[0].qkv.kernel", ["model", ".blocks", "[0]", ".qkv", ".kernel"]),
        ("p['a.b']['c]d'][\"e['f\"]", ["p", "['a.b']", "['c]d']", '["e[\'f"]']),
        (r"p['it\'s'][('x', 1)]", ["p", r"['it\'s']", "[('x', 1)]"]),
        ("[-1].x.get_value()", ["[-1]", ".x", ".get_value()"]),
    ],
)
def test_a_path_is_taken_apart_and_nothing_is_lost(path: str, expected: list[str]) -> None:
    assert steps(path) == expected
    assert "".join(steps(path)) == path


def test_only_what_leads_on_is_within() -> None:
    assert within("w", "w") and within("w.a", "w") and within("w[0]", "w")
    assert not within("w2", "w") and not within("v", "w")


def test_a_branch_has_the_bytes_of_all_below() -> None:
    tree = grow("p", [array("p.a", "data", "model"), array("p.b", None, "model")], MESHES, {})
    assert (tree.nbytes, tree.device_bytes, len(tree.leaves)) == (128, 16 + 32, 2)


def test_an_array_under_two_paths_counts_once() -> None:
    arrays = [array("p.a", None), array("p.b", None)]
    tree = grow("p", arrays, MESHES, {"p.b": "p.a"})
    assert (tree.nbytes, len(tree.leaves)) == (16, 1)
    text = tree_text("p", arrays, MESHES, same={"p.b": "p.a"})
    assert text.splitlines()[-1].split() == [".b", "f32[4]", "is", "p.a"]


def test_layers_that_are_alike_are_one_row() -> None:
    layers = [
        array(f"m.layers[{n}].{name}", None, "model") for n in range(12) for name in ("w", "v")
    ]
    odd = [array("m.layers[12].w", None, None)]
    lines = tree_text("m", [*layers, *odd], MESHES).splitlines()
    assert lines[0] == "m  25 arrays, 1.6 KB; up to 832 B per device"
    assert [line.split()[0] for line in lines[1:]] == [
        *("array", ".layers", "[0–11]", ".w", ".v", "[12].w")
    ]
    assert "×12 identical, 2 arrays each" in lines[3] and "768 B" in lines[3]


def test_layers_of_other_sizes_or_layouts_are_not_alike() -> None:
    arrays = [array("m[0].w", None), array("m[1].w", "data"), array("m[2].w", "data", size=8)]
    assert len(grow("m", arrays, MESHES, {}).branches) == 3
    same = [array("m[0].w", None), array("m[2].w", None)]
    assert len(grow("m", same, MESHES, {}).branches) == 2  # a number is left out


def test_layers_on_other_devices_are_not_alike() -> None:
    stages = [
        Mesh(id=f"s{n}", axes=(Axis(name="data", size=1, type="auto"),), devices=(f"0:{n}",))
        for n in range(2)
    ]
    arrays = [
        structs.replace(one, sharding=structs.replace(one.sharding, mesh=stage.id))
        for n, stage in enumerate(stages)
        for one in (array(f"m[{n}].w", None), array(f"m[{n}].v", None))
    ]
    tree = grow("m", arrays, {stage.id: stage for stage in stages}, {})
    assert len(tree.branches) == 2
    assert (tree.nbytes, tree.device_bytes) == (64, 32)


def test_only_neighbours_with_numbers_are_alike() -> None:
    keys = ("['a']", "[1]", "[2]", ".x", "[3]")
    arrays = [array(f"m{key}.{name}", None) for key in keys for name in ("w", "v")]
    names = [branch.name for branch in grow("m", arrays, MESHES, {}).branches]
    assert names == ["['a']", "[1–2]", ".x", "[3]"]


def test_large_arrays_that_nothing_splits_are_marked_with_why() -> None:
    text = tree_text("p", [array("p.a", None, None, size=512), array("p.b", None)], MESHES)
    lines = text.splitlines()
    assert lines[2].endswith("4×  replicated (1 MB)") and lines[3].endswith("4×")
    assert lines[-1] == "replicated: its spec is P(None, None), which splits nothing"


def test_by_bytes_the_largest_comes_first() -> None:
    arrays = [array("p.a", None), array("p.b", None, size=64), array("p.c", "model", size=64)]
    lines = tree_text("p", arrays, MESHES, by_bytes=True).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["p.b", "p.c", "p.a"]


def test_very_deep_and_very_wide_trees() -> None:
    deep = array("t" + "[0]" * 3000, None)
    wide = [array(f"t.x{n}", None) for n in range(3000)]
    text = tree_text("t", [deep, *wide], MESHES, left_out=(7, 1))
    assert text.startswith("t  3001 arrays looked at, ") and "… and 2001 more rows" in text
    assert text.endswith(
        "not looked at: 7 more arrays, 1 container that lies too deep or is one too many"
    )
