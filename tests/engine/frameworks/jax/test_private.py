"""Private API of JAX and Flax: all of it is in this release, and what happens without each part."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.contract.calls.engine import Membership
from nbdist.engine.frameworks.hooks import PrivateName
from nbdist.engine.frameworks.jax import private, start
from nbdist.engine.frameworks.jax.describe import ContextMesh, mesh_in_context, ready
from nbdist.engine.frameworks.jax.objects import flax_states, is_pytree
from nbdist.engine.frameworks.jax.private import coordinator_client
from nbdist.engine.frameworks.jax.repair import backend, repair
from nbdist.engine.frameworks.jax.repair.anew import array_like, live_platforms, sharding_like
from nbdist.engine.frameworks.jax.repair.survey import Twins
from nbdist.engine.frameworks.jax.step.dispatched import hook_programs

NAMES = {name: one for name, one in vars(private).items() if isinstance(one, PrivateName)}


@functools.cache
def of_xla() -> Any:
    named = NamedSharding(Mesh(np.array(jax.devices()), ("a",)), P("a"))
    hlo = named._to_xla_hlo_sharding(1)
    kinds = sys.modules["jax._src.sharding_impls"]
    return kinds.GSPMDSharding(tuple(jax.devices()), hlo)


@functools.cache
def scalar() -> tuple[Any, Any]:
    weak = jnp.asarray(2.0)
    return weak, jax.device_put(np.float32(2), weak.sharding)


def scalar_again() -> tuple[float, bool, bool]:
    weak, buffer = scalar()
    made = array_like(weak, weak.sharding, [buffer])
    return float(made), made.committed, made.weak_type


def is_replaced(name: PrivateName) -> bool:
    return hasattr(name.get(), "__wrapped__")


def gate() -> bool:
    backend.close()
    closed = is_replaced(private.BACKENDS)
    backend.reopen()
    return closed and not is_replaced(private.BACKENDS)


def client() -> bool:
    with backend.made_with(shutdown_on_destruction=False):
        return isinstance(private.MAKE_CLIENT.get(), functools.partial)


def clearing() -> bool:
    start.refuse_clearing(lambda: True)
    return is_replaced(private.CLEAR_BACKENDS)


def context() -> bool:
    with jax.set_mesh(jax.make_mesh((8,), ("seen",))):
        return mesh_in_context() is not None


def older_context() -> tuple[Any, bool]:
    seen = ContextMesh(0)
    hooked = seen.hook()
    seen.unhook()
    return mesh_in_context(), hooked


def programs() -> bool:
    unhook = hook_programs(lambda *call: None, lambda program, arguments: None)
    if unhook is not None:
        unhook()
    return unhook is not None


def platforms() -> list[str]:
    with mock.patch.dict(private.LIVE_BACKENDS.get() or {}, other=1, interpreter=2):
        return live_platforms()


class Everybodys:
    """Takes all classes for the user's."""

    def __contains__(self, kind: object) -> bool:
        return True

    def text(self, kind: object) -> str:
        return ""


def states() -> bool:
    assert flax.serialization
    return bool(flax_states(Everybodys()).read())  # type: ignore[arg-type]


DIFFERENCES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "MAKE_CLIENT": (client, True, False),
    "MAKE_GLOO": (lambda: start.keep_gloo_on("127.0.0.1"), True, False),
    "DEFAULT_BACKEND": (ready, True, False),
    "LIVE_BACKENDS": (platforms, ["cpu", "other"], ["cpu"]),
    "BACKENDS": (gate, True, False),
    "CLEAR_BACKENDS": (clearing, True, False),
    "CONCRETE_MESH": (context, True, False),
    "THREAD_RESOURCES": (older_context, (None, True), (None, True)),
    "PYTREES": (lambda: is_pytree(dict), True, False),
    "RUNTIME_TOKENS": (repair._forget_effects, None, None),
    "GSPMD_SHARDING": (lambda: sharding_like(of_xla(), Twins()) is not None, True, False),
    "ARRAY_IMPL": (scalar_again, (2.0, False, True), (2.0, True, False)),
    "POST_HOOK_STATE": (programs, True, False),
    "EXECUTE": (programs, True, False),
    "NUMPY": (start.place, True, False),
    "STATE_DICTS": (states, True, False),
}
"""By name: what shows it, the result in this release, and the result where the name is gone."""


def test_each_name_is_there_and_has_its_difference() -> None:
    assert multihost_utils and set(DIFFERENCES) | {"GLOBAL_STATE"} == set(NAMES)
    assert [name for name, one in NAMES.items() if one.get() is None] == []


@pytest.mark.parametrize("name", DIFFERENCES)
def test_without_a_name_only_what_it_is_for_is_lost(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in NAMES.values():  # as it was, afterwards
        monkeypatch.setattr(f"{one.module}.{one.name}", one.get())
    shows, here, gone = DIFFERENCES[name]
    assert shows() == here
    # Another module in its place: JAX itself still needs the name.
    module, rest = NAMES[name].module, dict(vars(sys.modules[NAMES[name].module]))
    del rest[NAMES[name].name]
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**rest))
    assert shows() == gone


class Client:
    """Has the methods of a coordinator's key-value store."""

    def key_value_set(self) -> None:
        """Set."""

    def key_value_dir_get(self) -> None:
        """Get."""


def test_the_cluster_and_its_store_are_found_where_jax_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert {"client", "process_id", "num_processes"} <= vars(
        type(private.GLOBAL_STATE.get())
    ).keys()
    state = SimpleNamespace(client=object(), process_id=1, num_processes=2)
    monkeypatch.setattr("jax._src.distributed.global_state", state)
    assert (start.joined(), coordinator_client()) == (Membership(process_id=1, count=2), None)
    state.client = Client()
    assert coordinator_client() is state.client
    state.client = None
    assert (start.joined(), coordinator_client()) == (None, None)
    monkeypatch.delattr("jax._src.distributed.global_state")
    assert (start.joined(), coordinator_client()) == (None, None)
    monkeypatch.setattr("jax.distributed.shutdown", mock.Mock(side_effect=RuntimeError("FAILED")))
    backend.leave()


def test_an_array_or_sharding_without_private_attributes_stands_for_itself() -> None:
    plain = SimpleNamespace()
    assert private.base_array(plain) is plain
    assert private.is_committed(plain)
    assert private.hlo_parts(plain) is None
    assert private.compiled_function() == (None, None)


def other_error() -> tuple[bool, str]:
    """Whether the use of a deleted array can raise another error, and the class of what it raises."""
    array: Any = jnp.ones(2)
    array.delete()
    there = private.on_deleted(lambda one: KeyError("lost") if one is array else None)
    with pytest.raises((RuntimeError, KeyError)) as raised:
        array + 1
    return there, type(raised.value).__name__


@pytest.mark.parametrize("without", ["", "ArrayImpl", "_check_if_deleted"])
def test_without_the_method_that_refuses_deleted_arrays_jax_says_so_itself(
    monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    kind = private.ARRAY_IMPL.get()
    assert kind is not None
    monkeypatch.setattr(kind, "_check_if_deleted", kind._check_if_deleted)
    other = {"": kind, "ArrayImpl": None, "_check_if_deleted": SimpleNamespace()}[without]
    monkeypatch.setattr(type(private.ARRAY_IMPL), "get", lambda _: other)
    assert other_error() == ((True, "KeyError") if without == "" else (False, "RuntimeError"))
