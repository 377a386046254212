"""The bound on the time of a run: the longest of what must happen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.contract.program import Collective, Memory, Program, totals
from nbdist.errors import ProgramError
from nbdist.program.compiled import refused
from nbdist.rehearsal.run.figures import Speeds, bound_of

MEMORY = Memory(arguments=60, outputs=40, temporaries=0, aliased=0, code=0)
SPEEDS = Speeds(flops_per_s=10, memory_bytes_per_s=50, link_bytes_per_s=2)


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
    return replace(plain, **changed)


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("all-reduce", 12),
        ("all-gather", 6),
        ("reduce-scatter", 6),
        ("all-to-all", 6),
        ("collective-permute", 8),
        ("collective-broadcast", 0),
    ],
)
def test_what_a_device_must_send_of_eight_bytes_among_four(kind, sent):
    assert collective(kind).sent == sent
    assert collective(kind, group_size=1, bytes=0).sent == 0


def test_it_is_the_longest_of_compute_memory_and_network():
    program = Program(
        name="f", fits=True, memory=MEMORY, matmul_flops=70, collectives=(collective(),)
    )
    found = bound_of(program, SPEEDS)
    assert (found.compute_s, found.memory_s, found.network_s) == (7, 2, 6)
    assert (found.seconds, found.left_out) == (7, ())
    thrice = replace(program, collectives=(collective(times=3),))
    assert (bound_of(thrice, SPEEDS).network_s, bound_of(thrice, SPEEDS).seconds) == (18, 18)


def test_what_may_not_run_or_is_not_known_is_left_out_and_said():
    program = Program(
        name="f",
        fits=True,
        memory=MEMORY,
        collectives=(collective(in_branch=True), collective(times=None), collective()),
        unread=("1 send",),
    )
    found = bound_of(program, SPEEDS)
    assert (found.compute_s, found.network_s) == (None, 6)
    assert found.left_out == (
        "its products",
        "1 collective in loops whose turns are not known",
        "1 collective in branches",
        "1 send",
    )
    unlinked = bound_of(program, replace(SPEEDS, link_bytes_per_s=None))
    assert (unlinked.network_s, unlinked.seconds) == (None, 2)
    assert unlinked.left_out == ("its products", "its collectives", "1 send")


def test_a_program_that_does_not_fit_has_no_bound():
    program = refused("Ran out of memory on HBM", "step")
    assert program is not None
    with pytest.raises(ProgramError, match="step has no bound"):
        bound_of(program, SPEEDS)


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


def test_only_moves_that_the_compiler_put_in_are_resharding():
    kinds = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute")
    assert [collective(k, inserted=True).resharding for k in kinds] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert not any(collective(k).resharding for k in kinds)
