"""Programs that XLA for TPUs has compiled: what is read in their texts is what theory says."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from nbdist.contract.program import MeshAxes, ProgramMemory
from nbdist.errors import ProgramError
from nbdist.program.collectives import direction_of
from nbdist.program.compiled import read_program
from tests.golden.known_programs import MATMULS, TPU, check
from tests.golden.programs import PROGRAMS
from tests.places import GOLDEN

TEXTS = GOLDEN / "programs_tpu"
SHAPES = {
    "tensor_parallel": {"data": 2, "model": 4},
    "tensor_parallel_step": {"data": 2, "model": 4},
    "overlapped": {"data": 4, "model": 2},
    "ring": {"seq": 8},
    "pipeline": {"stage": 4, "data": 2},
    "experts": {"data": 2, "expert": 4},
    "both_axes": {"data": 2, "model": 4},
    "scattered": {"data": 4, "model": 2},
    "resharded": {"data": 2, "model": 4},
    "sequence_parallel": {"data": 2, "model": 4},
    "heads": {"data": 2, "seq": 4},
    "vocabulary": {"data": 2, "model": 4},
    "table": {"data": 2, "model": 4},
    "cannon": {"y": 2, "x": 4},
}


def text_of(name: str) -> str:
    return gzip.decompress((TEXTS / f"{name}.hlo.gz").read_bytes()).decode()


def mesh_of(name: str) -> MeshAxes:
    shape = SHAPES.get(name, {"data": 8})
    return MeshAxes(names=tuple(shape), shape=tuple(shape.values()), devices=tuple(range(8)))


def test_each_program_is_recorded_and_known():
    recorded = json.loads((TEXTS / "recorded.json").read_text())
    assert recorded["programs"].keys() == PROGRAMS.keys() == TPU.keys()
    assert {path.name.removesuffix(".hlo.gz") for path in TEXTS.glob("*.gz")} == set(PROGRAMS)
    assert sum(bool(known) for known in TPU.values()) >= 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_exchanged_is_what_theory_says(name):
    check(read_program(text_of(name), meshes=[mesh_of(name)]).collectives, TPU[name])


@pytest.mark.parametrize("name", MATMULS)
def test_products_of_matrices_are_counted_with_their_loops(name):
    assert read_program(text_of(name)).matmul_flops == MATMULS[name]


def test_a_collective_that_runs_in_several_fusions_is_counted_once():
    text = text_of("overlapped")
    # Each of three gathers is named by the fusions that begin it, go on with it and end it.
    assert text.count("async_collective_fusion_config") > 6
    assert text.count("AsyncCollectiveStart") == 3
    gathers = [each for each in read_program(text).collectives if each.kind == "all-gather"]
    assert len(gathers) == 4


def test_two_collectives_with_one_channel_are_two():
    text = text_of("experts")
    assert re.findall(r"all-to-all\(.*channel_id=(\d+)", text) == ["1", "1"]
    assert len(read_program(text).collectives) == 2


def test_a_reduce_scatter_that_is_written_as_an_all_reduce_is_said_to_be_so():
    found = [each for each in read_program(text_of("fully_sharded")).collectives if each.fused]
    assert [(each.kind, each.fused) for each in found] == [
        ("reduce-scatter", "all-reduce and dynamic-slice in one fusion")
    ]


def test_where_groups_are_no_axes_devices_are_named_by_the_ids_of_the_mesh():
    (found,) = read_program(text_of("halves")).collectives
    assert (found.axes, found.devices) == (None, "{0–2, 5}, {3, 4, 6, 7}")
    (found,) = read_program(text_of("ring")).collectives
    assert (found.axes, found.devices) == (None, "{0→1}, {1→2}, {2→3}, {3→4}, and 4 more")
    mesh = MeshAxes(names=("data",), shape=(8,), devices=(0, 1, 3, 2, 7, 6, 4, 5))
    (found,) = read_program(text_of("halves"), meshes=[mesh]).collectives
    assert (found.axes, found.devices) == (None, "{0, 1, 3, 6}, {2, 4, 5, 7}")


def test_moves_that_the_compiler_put_in_are_marked_and_asked_ones_are_not():
    marked = {
        name: [each.resharding for each in read_program(text_of(name)).collectives]
        for name in ("resharded", "overlapped", "scattered", "experts", "ring", "tensor_parallel")
    }
    assert marked == {
        "resharded": [True],
        # Its four gathers, three of which lie in fusions that do not say it of the gather itself.
        "overlapped": [True, True, False, True, True, False, False, False, False],
        "scattered": [False, False],
        "experts": [False, False],
        "ring": [False],
        "tensor_parallel": [False] * 4,
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_text_that_ends_early_is_refused_or_lacks_nothing(name):
    text = text_of(name)
    whole = read_program(text)
    for part in range(1, 20):
        try:
            read = read_program(text[: len(text) * part // 20])
        except ProgramError:
            continue
        assert read == whole


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with ''"),
        ("Traceback (most recent call last):", "not with 'HloModule'"),
        ("HloModule jit_f, num_partitions=8\n", "begins with 'ENTRY'"),
        ("HloModule f\n\n%a (b: f32[]) -> f32[] {\n  %b = f32[] parameter(0)\n", "in the middle"),
    ],
)
def test_what_is_no_program_is_refused(text, said):
    with pytest.raises(ProgramError, match=said):
        read_program(text)


ONE = """HloModule jit_f, num_partitions=8

ENTRY %main (p: f32[8]) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  ROOT %r = {0}
}}
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x9[8]{0} all-reduce(%p), channel_id=1, replica_groups={}, to_apply=%a", "'x9'"),
        ("f32[8]{0} all-reduce(%p), replica_groups=<8>, to_apply=%a", "is not known here"),
        ("f32[8]{0} all-reduce(%p), replica_groups=[2,4]<=[9], to_apply=%a", "do not belong together"),
        ("f32[8]{0} reduce-scatter(%q), channel_id=1, replica_groups={}, to_apply=%a", "has no 'q'"),
        ("f32[8]{0} collective-permute(%p), source_target_pairs={{0,1,2}}", "pairs"),
        ("f32[?]{0} all-reduce(%p), channel_id=1, replica_groups={}, to_apply=%a", "shape"),
        ("() all-reduce(), channel_id=1, replica_groups={}, to_apply=%a", "without arrays"),
    ],
)  # fmt: skip
def test_a_collective_that_cannot_be_read_is_refused(line, said):
    with pytest.raises(ProgramError, match=said):
        read_program(ONE.format(line))


def test_what_is_called_by_nothing_is_refused():
    line = "f32[8]{0} all-reduce(%p), channel_id=1, replica_groups={}, use_global_device_ids=true"
    text = ONE.format(line).replace("ENTRY %main", "%main")
    text += "\nENTRY %other (q: f32[8]) -> f32[8] {\n  ROOT %q = f32[8]{0} parameter(0)\n}\n"
    with pytest.raises(ProgramError, match=r"nothing calls the computation 'main'"):
        read_program(text)


@pytest.mark.parametrize(
    ("operation", "direction"),
    [
        ("jit(step)/jvp()/dot_general", "forward"),
        ("jit(step)/transpose(jvp())/dot_general", "backward"),
        ("jit(step)/(transpose(jvp())/dot_general:jvp()/reduce_sum)", "both"),
        ("jit(step)/(transpose(jvp())/a:transpose(jvp())/b)", "backward"),
        ("jit(step)/mul", ""),
        ("", ""),
    ],
)
def test_the_direction_of_a_gradient_is_in_the_name(operation, direction):
    assert direction_of(operation) == direction


def test_it_fits_where_all_it_needs_is_within_the_limit():
    def memory(limit):
        return ProgramMemory(arguments=4, outputs=4, temporaries=2, aliased=4, code=1, limit=limit)

    text = text_of("alone")
    assert memory(None).needed == 7
    assert [read_program(text, memory=memory(n)).fits for n in (None, 6, 7)] == [True, False, True]
    assert read_program(text).memory is None


def test_who_exchanges_with_whom_is_kept_once():
    program = read_program(
        text_of("tensor_parallel_step"), meshes=[mesh_of("tensor_parallel_step")]
    )
    assert program.mesh == mesh_of("tensor_parallel_step")
    assert [each.axes for each in program.collectives] == [("model",)] * 2 + [("data",)] * 2
    assert [each.grouping for each in program.collectives] == [0, 0, 1, 1]
    assert program.groupings[0].groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    (moves,) = read_program(text_of("pipeline")).groupings
    assert moves.pairs and set(moves.groups) == {(n, n + 2) for n in range(6)}


def test_of_very_many_places_only_the_first_are_kept(monkeypatch):
    monkeypatch.setattr("nbdist.program.collectives.MOST_PLACES", 8)
    program = read_program(text_of("tensor_parallel_step"))
    assert len(program.groupings) == 1
    assert [each.grouping for each in program.collectives] == [0, 0, None, None]


def test_a_mesh_of_other_devices_is_not_the_programs():
    small = MeshAxes(names=("x",), shape=(4,), devices=(0, 1, 2, 3))
    assert read_program(text_of("ring"), meshes=[small]).mesh is None
    assert read_program(text_of("ring"), meshes=[small, mesh_of("ring")]).mesh == mesh_of("ring")
