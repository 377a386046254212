"""What goes between slices, out of the text of a program of one slice."""

from __future__ import annotations

import pytest

from nbdist.contract.program import MeshAxes, totals
from nbdist.errors import ProgramError
from nbdist.program.axes import ids_of, kind_of
from nbdist.program.compiled import read_program
from nbdist.view.program import program_text

TEXT = """HloModule jit_step, is_scheduled=true, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (x: f32[256]) -> f32[256] {
  %x = f32[256]{0} parameter(0)
  %after = token[] after-all()
  %all = f32[256]{0} all-reduce(%x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
  %send = (f32[256]{0}, u32[], token[]) send(%all, %after), channel_id=2, is_host_transfer=true, frontend_attributes={_xla_megascale_target="{1,2,3}x{0:1}",_xla_megascale_transfer_type="ALL_REDUCE"}
  %recv = (f32[256]{0}, u32[], token[]) recv(%after), channel_id=3, is_host_transfer=true, frontend_attributes={_xla_megascale_target="{1,2,3}x{0:1}",_xla_megascale_transfer_type="ALL_REDUCE"}
  %recv-done = (f32[256]{0}, token[]) recv-done(%recv), channel_id=3, is_host_transfer=true
  ROOT %result = f32[256]{0} get-tuple-element(%recv-done), index=0
}
"""  # noqa: E501
MESH = MeshAxes(
    names=("slice", "data"),
    shape=(3, 2),
    devices=(100000, 100001, 200000, 200001, 300000, 300001),
    slices=(0, 0, 1, 1, 2, 2),
)


def test_within_and_between_are_told_apart_and_counted_once():
    program = read_program(TEXT, meshes=[MESH])
    assert [(one.axes, one.between_slices, one.sent) for one in program.collectives] == [
        (("data",), False, 1024),
        (("slice",), True, 4 * 1024 // 3),
    ]
    assert [(one.axes, one.between_slices) for one in totals(program.collectives)] == [
        (("data",), False),
        (("slice",), True),
    ]
    assert program.unread == ()


def test_who_exchanges_with_whom_counts_in_the_mesh_over_all():
    """Also where each slice's devices are apart in it."""
    program = read_program(TEXT, meshes=[MESH])
    assert program.mesh == MESH
    within, between = (program.groupings[one.grouping] for one in program.collectives)
    assert within.groups == ((0, 1), (2, 3), (4, 5))
    assert between.groups == ((0, 2, 4), (1, 3, 5))
    turned = MeshAxes(
        names=("data", "slice"),
        shape=(2, 3),
        devices=(100000, 200000, 300000, 100001, 200001, 300001),
        slices=(0, 1, 2, 0, 1, 2),
    )
    program = read_program(TEXT, meshes=[turned])
    within, between = (program.groupings[one.grouping] for one in program.collectives)
    assert within.groups == ((0, 3), (1, 4), (2, 5))
    assert between.groups == ((0, 1, 2), (3, 4, 5))


def test_the_text_says_what_goes_between_slices():
    lines = program_text(read_program(TEXT, meshes=[MESH])).splitlines()
    assert "along slice, between slices: 1 KB per device in one run" in lines


def test_without_the_mesh_the_devices_are_named():
    within, between = read_program(TEXT).collectives
    assert (within.axes, within.devices) == (None, "{0, 1}")
    assert between.axes is None
    assert between.grouping is None
    assert between.devices == "{100000, 200000, 300000}, {100001, 200001, 300001}"


def test_of_an_axis_that_goes_over_slices_each_part_has_its_name():
    data = MeshAxes(names=("data", "one"), shape=(6, 1), devices=MESH.devices, slices=MESH.slices)
    within, between = read_program(TEXT, meshes=[data]).collectives
    assert (within.axes, within.group_size) == (("data",), 2)
    assert (between.axes, between.group_size) == (("data",), 3)


@pytest.mark.parametrize(
    ("target", "groups"),
    [
        ('"{1,2}x{0:2}"', ((100000, 200000), (100001, 200001), (100002, 200002))),
        ('"{1,3}x{0,5}"', ((100000, 300000), (100005, 300005))),
        ("{{100000,300000},{100001,300001}}", ((100000, 300000), (100001, 300001))),
        ("{{100000->200000},{200000->100000}}", ((100000, 200000), (200000, 100000))),
    ],
)
def test_each_notation_of_devices_is_read(target, groups):
    attributes = f'x={{_xla_megascale_target={target},_xla_megascale_transfer_type="ALL_REDUCE"}}'
    assert ids_of(attributes, "jit_step") == groups


def test_what_is_not_known_is_an_error_and_no_guess():
    with pytest.raises(ProgramError, match=r"jit_step.*'BROADCAST'. Known: ALL_REDUCE"):
        kind_of('_xla_megascale_transfer_type="BROADCAST"', "jit_step")
    with pytest.raises(ProgramError, match="form that is not known here: 'all'"):
        ids_of('_xla_megascale_target="all"', "jit_step")
