"""The mesh in context on the main thread, seen from another thread in the middle of a cell."""

import subprocess
import sys
import threading
import warnings

import jax
import pytest

from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.frameworks.jax import describe as context_module
from nbdist.engine.frameworks.jax.describe import (
    ContextMesh,
    hook_changes,
    mesh_in_context,
)
from tests.engine.threads import elsewhere

WARNS = jax.__version_info__ >= (0, 10, 1)
"""Whether `with mesh:` is deprecated."""


@pytest.fixture
def context():
    context = ContextMesh(threading.get_ident())
    yield context
    context.unhook()
    jax.set_mesh(None)


@pytest.fixture
def other():
    return jax.make_mesh((8,), ("x",))


def test_a_change_in_the_middle_of_a_cell_is_seen_at_once_on_entering_and_leaving(
    context, mesh, other
):
    assert context.hook()
    jax.set_mesh(mesh)
    assert elsewhere(mesh_in_context) is None
    assert elsewhere(context.mesh) is mesh
    with jax.set_mesh(other):
        assert elsewhere(context.mesh) is other
    assert elsewhere(context.mesh) is mesh
    jax.sharding.set_mesh(other)
    assert elsewhere(context.mesh) is other
    jax.set_mesh(None)
    assert elsewhere(context.mesh) is None


def test_the_older_context_is_seen_too_and_its_warning_points_to_the_users_line(context, mesh):
    context.hook()
    with warnings.catch_warnings(record=True, action="always") as warned, mesh:
        assert elsewhere(context.mesh) is mesh
    assert elsewhere(context.mesh) is None
    assert [w.filename for w in warned if "with mesh" in str(w.message)] == [__file__] * WARNS


def test_the_newer_context_is_seen_when_the_older_is_gone(context, mesh, monkeypatch):
    monkeypatch.delattr("jax._src.mesh.thread_resources")
    context.hook()
    with jax.set_mesh(mesh):
        assert context.mesh() is mesh
    assert context.mesh() is None


def test_leaving_through_an_exception_is_seen(context, mesh):
    context.hook()
    with pytest.raises(ZeroDivisionError), jax.set_mesh(mesh):
        raise ZeroDivisionError
    assert context.mesh() is None


def test_what_another_thread_sets_does_not_count(context, mesh):
    context.hook()

    def set_there():
        with jax.set_mesh(mesh):
            return context.mesh()

    assert elsewhere(set_there) is None


def test_without_a_place_to_hook_in_the_mesh_is_noted_at_cell_start_and_end(
    context, mesh, monkeypatch
):
    monkeypatch.setattr(context_module, "hook_changes", lambda note: None)
    assert not context.hook()
    cell = CurrentCell()
    cell.at_edges(context.note)
    cell.started(1, "")
    jax.set_mesh(mesh)
    assert context.mesh() is None
    cell.finished()
    assert context.mesh() is mesh
    cell.started(2, "")
    assert context.mesh() is mesh


def test_nothing_is_hooked_when_one_of_the_places_is_gone(monkeypatch):
    set_mesh = jax.set_mesh
    before = vars(set_mesh)["__init__"]
    monkeypatch.delattr(set_mesh, "__exit__")
    assert hook_changes(print) is None
    assert vars(set_mesh)["__init__"] is before
    monkeypatch.delattr("jax.set_mesh")
    assert hook_changes(print) is None


def test_unhooking_leaves_jax_as_it_was(context):
    from jax._src.mesh import thread_resources

    before = dict(vars(jax.set_mesh)), dict(vars(type(thread_resources)))
    context.hook()
    assert vars(jax.set_mesh) != before[0]
    context.unhook()
    assert (dict(vars(jax.set_mesh)), dict(vars(type(thread_resources)))) == before


def test_the_hook_is_placed_once_jax_is_imported():
    code = """
import sys, threading
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.frameworks.jax.describe import ContextMesh
context = ContextMesh(threading.get_ident())
cell = CurrentCell()
cell.at_edges(context.note)
cell.started(1, "import jax")
assert not context.hook() and "jax" not in sys.modules
import jax
cell.finished()
mesh = jax.make_mesh((1,), ("x",))
with jax.set_mesh(mesh):
    assert context.mesh() is mesh
assert context.mesh() is None
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
