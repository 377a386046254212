"""Groups of devices in XLA's notations, and the axes of the user's mesh that they are."""

from __future__ import annotations

import pytest

from nbdist.contract.program import MeshAxes
from nbdist.errors import ProgramError
from nbdist.program.axes import axes_of, axes_of_pairs, devices_text, groups_in, pairs_in

COLUMNS = ((0, 4), (1, 5), (2, 6), (3, 7))
MESH = MeshAxes(names=("data", "one", "model"), shape=(2, 1, 4), devices=tuple(range(8)))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,4},{1,5},{2,6},{3,7}}", COLUMNS),
        ("{{0, 4}, {1, 5}, {2, 6}, {3, 7}}", COLUMNS),
        ("[4,2]<=[2,4]T(1,0)", COLUMNS),
        ("mesh['data'=2,'model'=4] {'data'}", COLUMNS),
        ("mesh[data=2,model=4] {data}", COLUMNS),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['data'=2,'model'=4] {'model'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['data'=2,'model'=4] {'data','model'}", (tuple(range(8)),)),
        ("{}", (tuple(range(8)),)),
        # Its devices in another order: as a list, and as a transposed array of numbers.
        ("mesh['a'=4,'b'=2], device_ids=(0,4,1,5,2,6,3,7) {'b'}", COLUMNS),
        ("mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'b'}", COLUMNS),
        # Parts of an axis: of 8 = 2 × 2 × 2 the first, the second, the last.
        ("mesh['x'=8] {'x':(1)2}", COLUMNS),
        ("mesh['x'=8] {'x':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['x'=8] {'x':(4)2}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['x'=8] {'x':(1)2,'x':(4)2}", ((0, 1, 4, 5), (2, 3, 6, 7))),
    ],
)
def test_each_notation_gives_its_groups(text, groups):
    assert groups_in(f"{text}, use_global_device_ids=true", 8) == (text, groups)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{0,4}",
        "[4,2]",
        "[4,2]<=[9]",
        "[4,2]<=[2,4]T(1,1)",
        "[2,2,2]<=[8]",
        "mesh['data'=2] {'model'}",
        "mesh['x'=8] {'x':(3)2}",
        "mesh['x'=8], device_ids=(0,1) {'x'}",
        "mesh['x'=8], device_ids=(&) {'x'}",
    ],
)
def test_what_is_none_of_them_is_refused(text):
    with pytest.raises(ProgramError, match="groups of a collective"):
        groups_in(text, 8)


def test_pairs_are_two_devices_each():
    assert pairs_in("{{0,1},{1,0}}, metadata={}")[1] == ((0, 1), (1, 0))
    with pytest.raises(ProgramError, match="pairs"):
        pairs_in("[2,4]<=[8]")


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        (COLUMNS, ("data",)),
        (((0, 1, 2, 3), (4, 5, 6, 7)), ("model",)),
        (((3, 2, 1, 0), (7, 6, 5, 4)), ("model",)),
        ((tuple(range(8)),), ("data", "model")),
        (tuple((place,) for place in range(8)), ()),
        (((0, 1), (2, 3), (4, 5), (6, 7)), None),
        (((0, 1, 2, 3),), None),
        (((0, 1, 2), (3, 4, 5, 6, 7)), None),
        (((0, 1, 2, 3), (4, 5, 6, 8)), None),
        (((0, 4), (1, 5), (2, 6), (3, 3)), None),
    ],
)
def test_groups_are_axes_only_where_all_of_them_are(groups, axes):
    assert axes_of(groups, MESH) == axes


@pytest.mark.parametrize(
    ("pairs", "axes"),
    [
        (((0, 1), (1, 2), (2, 3), (3, 0)), ("model",)),
        (((0, 4),), ("data",)),
        (((0, 1), (0, 4)), ("data", "model")),
        (((0, 5),), ("data", "model")),
        (((0, 0),), ()),
        (((0, 8),), None),
    ],
)
def test_a_permutation_goes_along_the_axes_in_which_source_and_target_differ(pairs, axes):
    assert axes_of_pairs(pairs, MESH) == axes


def test_devices_are_written_by_the_ids_of_the_mesh():
    mesh = MeshAxes(names=("x",), shape=(4,), devices=(10, 11, 12, 20))
    assert devices_text(((0, 1, 2), (3,)), mesh) == "{10–12}, {20}"
    assert devices_text(((0, 3), (3, 0)), mesh, pairs=True) == "{10→20}, {20→10}"
    assert devices_text(tuple((n,) for n in range(6)), None) == "{0}, {1}, {2}, {3}, and 2 more"


def test_a_mesh_has_as_many_devices_as_its_shape():
    with pytest.raises(ValueError, match="cannot have 3 devices"):
        MeshAxes(names=("x",), shape=(4,), devices=(0, 1, 2))
