"""A program of a pod, as a notebook shows it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import Data, decode, encode
from nbdist.rehearsal import programs
from nbdist.rehearsal.pod import Pod
from nbdist.rehearsal.programs import PodProgram, Programs
from nbdist.rehearsal.rehearsal import ProgramReport
from tests.pod.rehearsed import Rehearsed


@pytest.fixture
def pod():
    rehearsal = Rehearsed()
    return Pod(rehearsal.devices, rehearsal.programs)


def step(weights, batch, *, rate, unused):
    gradient = jax.grad(lambda w: ((batch @ w["w"] + w["b"]) ** 2).sum())(weights)
    return jax.tree.map(lambda w, g: w - rate * g, weights, gradient)


@pytest.fixture
def program(pod, mesh):
    return compiled(pod, mesh)


def compiled(pod, mesh):
    def of(*shape, spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    weights = {"w": of(16, 8, spec=P(None, "model")), "b": of(8, spec=P("model"))}
    batch = of(64, 16, spec=P("data"))
    scalar = of(spec=P())
    return pod.compile(step, weights, batch, rate=scalar, unused=of(3, spec=P()))


def test_its_arguments_lie_on_its_mesh(program):
    found = program.snapshot()
    assert found.program is not None
    (mesh,) = found.meshes
    assert found.program.mesh == mesh.id
    assert len(mesh.devices) == 8
    arrays = {array.path: array for array in found.arrays}
    assert {path: (a.shape, a.sharding.spec, a.nbytes) for path, a in arrays.items()} == {
        "args[0]['b']": ((8,), (("model",),), 32),
        "args[0]['w']": ((16, 8), ((), ("model",)), 512),
        "args[1]": ((64, 16), (("data",), ()), 4096),
        "kwargs['rate']": ((), (), 4),
    }
    assert {array.sharding.mesh for array in found.arrays} == {mesh.id}


def test_it_survives_the_way_to_the_notebook_and_is_plain_data(program):
    found = program.snapshot()
    assert decode(Snapshot, json.loads(json.dumps(encode(found)))) == found
    assert json.loads(json.dumps(encode(program)))["name"] == "jit_step"


def test_its_groups_are_those_of_the_axes(program):
    reduces = [each for each in program.collectives if each.axes == ("data",)]
    assert reduces
    for each in reduces:
        grouping = program.groupings[each.grouping]
        assert {frozenset(group) for group in grouping.groups} == {
            frozenset({0, 2, 4, 6}),
            frozenset({1, 3, 5, 7}),
        }


def test_one_that_was_kept_has_the_same_picture(program, mesh, kept_folder):
    assert len(list(kept_folder.iterdir())) == 1
    begun = []
    devices = Rehearsed().devices
    again = compiled(Pod(devices, Programs(devices, lambda program: None, begun.append)), mesh)
    assert begun == []
    assert again is not program
    assert again.snapshot() == program.snapshot()
    assert again.mesh is not None
    assert again.groupings


def test_what_was_kept_in_another_form_is_not_in_use():
    """The key has all code that makes what is kept, and all that says its form."""
    seen, left = set(), [programs._File]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        left += get_args(one)
        if isinstance(one, type) and issubclass(one, Data):
            left += get_type_hints(one).values()
    modules = {one.__module__ for one in seen if isinstance(one, type) and issubclass(one, Data)}
    assert len(modules) >= 3
    assert {Path(sys.modules[name].__file__) for name in modules} <= set(programs.READ_WITH)


def test_a_cell_shows_a_program_once():
    shown = []
    report = ProgramReport(show=shown.append)
    for program in (first := PodProgram(name="a", fits=True), first):
        report.compiled(program)
    assert shown == [first]
    assert not report.first(first)


def test_a_terminal_has_its_text(program, capsys):
    program._ipython_display_()
    assert capsys.readouterr().out.startswith("jit_step: ")
