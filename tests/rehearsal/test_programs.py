"""Programs compiled for TPUs that are not there: what they exchange and need is what theory and XLA say."""

from __future__ import annotations

import gzip

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import nbdist
from nbdist.program.compiled import compile_program, program_of, read_program
from tests.golden import make_programs
from tests.golden.known_programs import MATMULS, TPUS, check
from tests.golden.programs import PROGRAMS


@pytest.fixture(scope="module")
def compiled(devices):
    """All of them, for one kind of TPU."""
    found = {}
    for name, make in PROGRAMS.items():
        function, arguments, _ = make(devices)
        found[name] = function.lower(*arguments).compile()
    return found


@pytest.fixture(scope="module")
def pod(topology):
    """The same pod, as a user has it, while `compiled` is made of JAX alone."""
    jax.devices()
    return nbdist.rehearse(topology)


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_and_costs_are_those_of_jax_used_by_hand(compiled, pod, name):
    function, arguments, _ = PROGRAMS[name](pod.devices)
    analysis, program = compiled[name].memory_analysis(), pod.compile(function, *arguments)
    memory = program.memory
    assert (memory.arguments, memory.outputs, memory.temporaries, memory.aliased, memory.code) == (
        analysis.argument_size_in_bytes,
        analysis.output_size_in_bytes,
        analysis.temp_size_in_bytes,
        analysis.alias_size_in_bytes,
        analysis.generated_code_size_in_bytes,
    )
    assert program.flops == compiled[name].cost_analysis().get("flops")


@pytest.mark.parametrize("name", MATMULS)
def test_products_of_matrices_are_counted_with_their_loops(compiled, name):
    assert program_of(compiled[name]).matmul_flops == MATMULS[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_exchanged_is_what_theory_says(topology, compiled, name):
    check(program_of(compiled[name]).collectives, TPUS[topology][name])


def test_what_does_not_fit_is_a_program_that_says_so(devices):
    mesh = Mesh(np.array(devices), ("data",))
    sharding = NamedSharding(mesh, P("data"))
    rows = jax.ShapeDtypeStruct((2**20, 512), jnp.bfloat16, sharding=sharding)
    step = jax.jit(lambda x: jnp.tanh(x @ x.T).sum(axis=1) @ jnp.sin(x @ x.T))
    program = compile_program(step.lower(rows), name="step")
    assert (program.fits, program.memory) == (False, None)
    said = program.refusal
    assert "Ran out of memory" in said.text
    assert said.required > said.available > 2**33


def test_the_recorded_programs_are_what_this_version_makes(tmp_path):
    """Frames of who called the compiler stand in a text as well, so that the texts themselves differ."""
    make_programs.main(tmp_path)
    assert (tmp_path / "recorded.json").read_text() == (
        make_programs.HERE / "recorded.json"
    ).read_text()
    for name in PROGRAMS:
        made, kept = (
            read_program(gzip.decompress((folder / f"{name}.hlo.gz").read_bytes()).decode())
            for folder in (tmp_path, make_programs.HERE)
        )
        assert made == kept, "make golden-programs"
