"""Which collectives a program has, read from what XLA has compiled."""

import gc
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.engine.frameworks.jax.step.programs import ProgramCollectives, collectives


@pytest.fixture
def w():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    return jax.device_put(np.ones((64, 8), np.float32), NamedSharding(mesh, P("d")))


def found(function, w, **options):
    """The kinds and shapes of the collectives of a function, each as one text."""
    compiled = jax.jit(function, **options).lower(w).compile()
    lines = "\n".join(map(collectives, compiled.as_text().split("\0"))).splitlines()
    return [line.split(" replica_groups")[0].split(" source_target")[0] for line in lines]


def test_each_is_known_by_what_it_does_and_the_shape(w):
    whole = NamedSharding(w.sharding.mesh, P())
    across = NamedSharding(w.sharding.mesh, P(None, "d"))
    assert found(lambda w: w * 2, w) == []
    assert found(lambda w: w.sum(), w) == ["all-reduce(add) f32[]"]
    assert found(lambda w: w.max(), w) == ["all-reduce(maximum) f32[]"]
    assert found(lambda w: w, w, out_shardings=whole) == ["all-gather f32[64,8]"]
    assert found(lambda w: jnp.roll(w, 1, 0), w) == ["collective-permute f32[1,8]"]
    (swapped,) = found(lambda w: w, w, out_shardings=across)
    assert swapped.startswith("all-to-all (f32[8,1,1], f32[8,1,1]")
    assert sorted(found(lambda w: (w.sum(), w.max()), w)) == [
        "all-reduce(add) f32[]",
        "all-reduce(maximum) f32[]",
    ]


def test_among_which_devices_counts(w):
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)

    def text(axis):
        one = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P(axis)))
        return collectives(jax.jit(lambda w: w.sum()).lower(one).compile().as_text())

    assert text("a") != text("b")
    assert text("a").split(" replica")[0] == text("b").split(" replica")[0]


def test_neither_names_nor_files_count(w):
    def text(name, lines):
        namespace = {}
        code = compile("\n" * lines + f"def {name}(w): return w.sum()", f"<{name}>", "exec")
        exec(code, namespace)
        return collectives(jax.jit(namespace[name]).lower(w).compile().as_text())

    assert text("f", 1) == text("another", os.getpid() % 50 + 2) != ""


def test_what_a_combination_does_is_found_by_its_name():
    text = """
%add.1 (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(%x, %y)
}

ENTRY %main (p: f32[8]) -> (f32[8], f32[]) {
  %p = f32[8]{0} parameter(0)
  %a = (f32[8]{0}, f32[8]{0:T(8)}) all-reduce-start(%p, %p), channel=3, replica_groups=[1,4]<=[4], to_apply=%add.1
  %done = f32[8]{0} all-reduce-done(%a)
  ROOT %t = (f32[8]{0}, f32[]) tuple(%done, %p)
}
"""
    assert collectives(text) == "all-reduce(add) (f32[8], f32[8]) replica_groups=[1,4]<=[4]"


class Module:
    def __init__(self, text):
        self.text, self.read = text, 0

    def to_string(self):
        self.read += 1
        return self.text


class Program:
    pass


def test_a_program_is_read_once_and_not_kept():
    known, program = ProgramCollectives(), Program()
    module = Module(" %a = f32[] all-gather(%b), dimensions={0}")
    assert known.read(program, lambda: [module]) == module.text
    for _ in range(3):
        assert known.of(program) == "all-gather f32[] dimensions={0}"
    assert module.read == 1
    del program
    gc.collect()
    assert len(known._known) == 0


def test_a_back_end_that_does_not_say_is_unknown():
    def refuses():
        raise RuntimeError("UNIMPLEMENTED")

    known, program = ProgramCollectives(), Program()
    assert known.read(program, refuses) is None
    assert known.of(program) is None
    assert program in known
