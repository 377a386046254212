"""Programs compiled for the CPU devices here: what they exchange is what theory says."""

from __future__ import annotations

import itertools
import re

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.program.compiled import compile_program, program_of
from nbdist.program.hlo import Module, occurrences
from nbdist.program.runs import Loops
from tests.golden.known_programs import CPU, MATMULS, check
from tests.golden.programs import PROGRAMS


@pytest.fixture(scope="module")
def compiled():
    found = {}
    for name, make in PROGRAMS.items():
        function, arguments, _ = make(jax.devices())
        found[name] = function.lower(*arguments).compile()
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_exchanged_is_what_theory_says(compiled, name):
    check(program_of(compiled[name]).collectives, CPU[name])


@pytest.mark.parametrize("name", MATMULS)
def test_products_of_matrices_are_counted_with_their_loops(compiled, name):
    assert program_of(compiled[name]).matmul_flops == MATMULS[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_and_costs_are_those_that_xla_gives(compiled, name):
    program, analysis = program_of(compiled[name], limit=2**30), compiled[name].memory_analysis()
    memory = program.memory
    assert (memory.arguments, memory.outputs, memory.temporaries, memory.aliased, memory.code) == (
        analysis.argument_size_in_bytes,
        analysis.output_size_in_bytes,
        analysis.temp_size_in_bytes,
        analysis.alias_size_in_bytes,
        analysis.generated_code_size_in_bytes,
    )
    assert (memory.limit, program.fits) == (2**30, True)
    costs = compiled[name].cost_analysis()
    assert program.flops == costs.get("flops")
    assert program.bytes_accessed == costs.get("bytes accessed")


def test_turns_that_xla_says_follow_from_the_counter_as_well(compiled):
    """On TPUs it does not say them."""
    said = []
    for each in compiled.values():
        text = each.as_text()
        without = Module(re.sub(r'"known_trip_count":\{"n":"\d+"\}', '"a":1', text))
        for place in occurrences(text, ", body="):
            module = Module(text)
            loop = module.instruction_at(place)
            caller = module.computation_at(place)
            turns = Loops(module).turns(caller, loop)
            counted = Loops(without).turns(caller, without.defined(caller, loop.name))
            assert counted == turns
            said.append(turns)
    assert {3, 5, 6, 8, 11, None} <= set(said)


@pytest.mark.parametrize("seed", range(3))
def test_axes_are_those_of_a_mesh_whose_devices_are_in_any_order(seed):
    devices = np.random.default_rng(seed).permutation(np.array(jax.devices())).reshape(4, 2)
    mesh = Mesh(devices, ("x", "y"))
    for axes in (("x",), ("y",), ("x", "y")):
        step = jax.jit(
            jax.shard_map(
                lambda a, axes=axes: jax.lax.psum(a, axes),
                mesh=mesh,
                in_specs=P("x", "y"),
                out_specs=P(*(None if axis in axes else axis for axis in ("x", "y"))),
            )
        )
        argument = jax.ShapeDtypeStruct(
            (8, 8), "float32", sharding=NamedSharding(mesh, P("x", "y"))
        )
        (found,) = program_of(step.lower(argument).compile()).collectives
        assert found.axes == axes


def test_devices_that_are_no_axis_have_their_ids():
    order = [7, 6, 5, 4, 3, 2, 1, 0]
    mesh = Mesh(np.array(jax.devices())[order], ("x",))
    groups = [[0, 1, 2, 5], [3, 4, 6, 7]]
    step = jax.shard_map(
        lambda a: jax.lax.psum(a, "x", axis_index_groups=groups),
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P("x"),
        check_vma=False,
    )
    argument = jax.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(mesh, P("x")))
    (found,) = program_of(jax.jit(step).lower(argument).compile()).collectives
    assert (found.axes, found.devices) == (None, "{2, 5–7}, {0, 1, 3, 4}")


def test_all_subsets_of_three_axes_are_named():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))
    for count in (1, 2, 3):
        for axes in itertools.combinations(mesh.axis_names, count):
            step = jax.shard_map(
                lambda x, axes=axes: jax.lax.psum(x, axes),
                mesh=mesh,
                in_specs=P("a", "b", "c"),
                out_specs=P(*(None if axis in axes else axis for axis in mesh.axis_names)),
            )
            argument = jax.ShapeDtypeStruct(
                (2, 2, 2), "float32", sharding=NamedSharding(mesh, P("a", "b", "c"))
            )
            (found,) = program_of(jax.jit(step).lower(argument).compile()).collectives
            assert found.axes == axes


def test_what_the_compiler_refuses_for_another_reason_is_raised():
    class Lowered:
        def compile(self):
            raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        compile_program(Lowered())


def test_what_does_not_fit_is_a_program_that_says_so():
    class Lowered:
        def compile(self):
            raise jax.errors.JaxRuntimeError(
                "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries "
                "(2.00G) exceeds available HBM (1.00G)"
            )

    program = compile_program(Lowered(), name="step")
    assert (program.fits, program.refusal.required) == (False, 2 * 2**30)
