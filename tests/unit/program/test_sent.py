"""What a device must send for a collective, in one run, and which collectives only move data."""

from __future__ import annotations

import pytest
from msgspec import structs

from nbdist.contract.program import Collective, totals


def collective(kind="all-reduce", **changed) -> Collective:
    plain = Collective(
        kind=kind,
        axes=("data",),
        devices="",
        group_size=4,
        bytes=8,
        arrays=("f32[2]",),
        times=1,
        in_branch=False,
        direction="",
        inserted=False,
        fused="",
        file="",
        line=0,
        function="",
        operation="",
        name="a",
    )
    return structs.replace(plain, **changed)


@pytest.mark.parametrize(
    ("kind", "sent", "moves"),
    [
        ("all-reduce", 12, False),
        ("all-gather", 6, True),
        ("reduce-scatter", 6, False),
        ("all-to-all", 6, True),
        ("collective-permute", 8, True),
        ("collective-broadcast", 0, False),
    ],
)
def test_what_a_device_must_send_of_eight_bytes_among_four(kind, sent, moves):
    assert collective(kind).sent == sent
    assert collective(kind, group_size=1, bytes=0).sent == 0
    # Only moves that the compiler put in are resharding.
    assert collective(kind, inserted=True).resharding == moves
    assert not collective(kind).resharding


def test_totals_are_those_of_each_set_of_axes():
    found = totals(
        [
            collective(times=3),
            collective(times=None),
            collective(axes=None, bytes=5, in_branch=True),
            collective(bytes=1),
        ]
    )
    assert [(t.axes, t.bytes, t.uncounted, t.at_most) for t in found] == [
        (("data",), 25, 1, False),
        (None, 5, 0, True),
    ]
