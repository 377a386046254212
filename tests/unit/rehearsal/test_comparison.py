"""Programs on several meshes as plain data and as a table."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from nbdist.contract.program import Program, ProgramMemory
from nbdist.program.compiled import refused
from nbdist.rehearsal.comparison import Comparison, Rehearsed, bound_of, seconds_figure
from nbdist.rehearsal.mesh import read_each
from nbdist.rehearsal.topology import NAMES
from tests.unit.program.test_sent import collective

MB = 2**20
MEMORY = ProgramMemory(
    arguments=8 * MB, outputs=4 * MB, temporaries=MB, aliased=0, code=0, limit=16 * 2**30
)
ONE = Program(
    name="jit_step",
    fits=True,
    memory=MEMORY,
    collectives=(collective(axes=("data",), bytes=4 * MB),),
    matmul_flops=197 * 10**9,
)
OTHER = structs.replace(
    ONE,
    memory=structs.replace(MEMORY, arguments=4 * MB, temporaries=9 * MB),
    collectives=(collective(axes=("model",), group_size=2, bytes=MB, times=8),),
)
SAID = "Ran out of memory in memory space hbm. Used 18.2G of 15.5G hbm."


def rehearsed(mesh, *programs, **changed):
    (pod,) = read_each("v5e:4x4", [mesh])
    return Rehearsed(pod=pod, programs=programs, **changed)


def test_the_table_has_all_figures_and_marks_the_best():
    found = Comparison((rehearsed("data=4,model=4", ONE), rehearsed("data=8,model=2", OTHER)))
    assert found.text().split("\n\n")[0] == (
        "jit_step          data=4,model=4  data=8,model=2\n"
        "fits              yes             yes\n"
        "arguments         8 MB            4 MB *\n"
        "outputs           4 MB            4 MB\n"
        "temporaries       1 MB *          9 MB\n"
        "total             13 MB *         17 MB\n"
        "sent along data   6 MB            0 B\n"
        "sent along model  0 B             8 MB\n"
        "sent in all       6 MB *          8 MB\n"
        "bound             1 ms            1 ms"
    )


def test_what_does_not_fit_is_never_the_best_and_has_no_made_up_figures():
    big = refused(SAID, "jit_step")
    found = Comparison(
        tuple(
            rehearsed(mesh, program)
            for mesh, program in [("a=16", big), ("a=8,b=2", ONE), ("a=4,b=4", OTHER)]
        )
    )
    first, *_ = found.figures
    assert (first.fits, first.total, first.sent_bytes, first.bound_s, first.best) == (
        *(False, None, None, None),
        (),
    )
    assert "a=16: jit_step does not fit, 18.2 GB of 15.5 GB" in found.text()
    assert SAID not in found.text()
    assert SAID in found.details()


SMALL = replace(NAMES["v5e"], devices=1, bf16_flops=10, hbm_bytes_per_s=50, ici_bytes_per_s=4)
NEEDED = ProgramMemory(arguments=60, outputs=40, temporaries=0, aliased=0, code=0)


def test_the_bound_is_the_longest_of_compute_memory_and_network():
    def bound(chip=SMALL, **changed):
        plain = Program(name="f", fits=True, matmul_flops=70, collectives=(collective(),))
        return bound_of(structs.replace(plain, **changed), NEEDED, chip)

    assert bound() == (7, ())
    assert bound(collectives=(collective(times=3),)) == (18, ())
    assert bound(matmul_flops=1, collectives=()) == (2, ())
    assert bound(replace(SMALL, devices=2)) == (14, ())
    unsure = (collective(in_branch=True), collective(times=None), collective())
    between = collective(between_slices=True)
    seconds, left_out = bound(matmul_flops=None, collectives=(*unsure, between), unread=("1 send",))
    assert (seconds, [words.split()[-1] for words in left_out]) == (
        *(6,),
        ["products", "known", "branches", "slices", "send"],
    )
    unlinked = bound(replace(SMALL, ici_bytes_per_s=None), matmul_flops=None, collectives=unsure)
    assert unlinked == (2, ("its products", "its collectives"))


def test_what_sends_least_but_does_not_fit_is_not_the_best():
    large = structs.replace(
        ONE, fits=False, memory=structs.replace(MEMORY, temporaries=20 * 2**30), collectives=()
    )
    meshes = ("a=16", "a=8,b=2", "a=4,b=4")
    rows = Comparison(tuple(map(rehearsed, meshes, (large, ONE, OTHER)))).figures
    assert ["sent" in row.best for row in rows] == [False, True, False]
    assert rows[0].best == ()


def test_a_figure_that_is_not_certain_makes_none_the_best():
    unknown = structs.replace(
        ONE, collectives=(collective(times=None, bytes=MB),), matmul_flops=None
    )
    rows = Comparison((rehearsed("a=16", unknown), rehearsed("a=8,b=2", ONE))).figures
    assert not any({"sent", "bound_s"} & set(row.best) for row in rows)
    assert "≥ " in Comparison((rehearsed("a=16", unknown),)).text()


def test_programs_of_one_name_are_compared_in_their_order():
    found = Comparison((rehearsed("a=16", ONE, OTHER), rehearsed("a=8,b=2", ONE)))
    assert [(row.program, row.number, row.mesh) for row in found.figures] == [
        ("jit_step", 1, "a=16"),
        ("jit_step", 1, "a=8,b=2"),
        ("jit_step", 2, "a=16"),
    ]


def test_what_several_print_alike_stands_once():
    both = [rehearsed(mesh, output="hi\n") for mesh in ("a=16", "a=8,b=2")]
    assert Comparison(tuple(both)).output_text() == "hi"
    other = rehearsed("a=4,b=4", output="ho\n")
    assert Comparison((*both, other)).output_text() == "── a=16; a=8,b=2\nhi\n\n── a=4,b=4\nho"


def test_all_of_it_is_plain_data():
    plain = Comparison((rehearsed("a=16", ONE, failure="ValueNeeded: …"),)).plain()
    assert plain["rehearsals"][0]["mesh"] == "a=16"
    assert plain["rehearsals"][0]["failure"] == "ValueNeeded: …"
    assert plain["rehearsals"][0]["programs"][0]["memory"]["arguments"] == 8 * MB
    assert plain["comparison"][0]["sent"] == [
        {"axes": ["data"], "between_slices": False, "bytes": 6 * MB, "certain": True}
    ]


def test_the_same_axes_in_another_order_are_one_line():
    programs = [
        structs.replace(ONE, collectives=(collective(axes=axes, bytes=MB),))
        for axes in (("a", "b"), ("b", "a"))
    ]
    meshes = ("a=4,b=4", "b=4,a=4")
    found = Comparison(tuple(map(rehearsed, meshes, programs)))
    lines = [line for line in found.text().splitlines() if line.startswith("sent along")]
    assert [line.split()[-4:] for line in lines] == [["1.5", "MB", "1.5", "MB"]]


def test_meshes_that_are_too_many_for_a_line_follow_below():
    meshes = [f"data={n},model={16 // n}" for n in (1, 2, 4, 8, 16)]
    text = Comparison(tuple(rehearsed(mesh, ONE) for mesh in meshes)).text()
    assert max(map(len, text.splitlines())) <= 100
    assert all(mesh in text for mesh in meshes)


def test_seconds_have_three_figures():
    assert [seconds_figure(x) for x in (2.0, 0.0123, 95.4e-6, 3e-9)] == [
        "2 s",
        "12.3 ms",
        "95.4 µs",
        "3 ns",
    ]
