"""Every program on devices of several processes is counted, once, and no other.

On one process all devices are its own; here an array on more than one device stands for one on those of several
processes.
"""

import gc
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.engine.frameworks.jax.arrays import plain_settings
from nbdist.engine.frameworks.jax.step import dispatched as module
from nbdist.engine.frameworks.jax.step.dispatched import (
    Dispatched,
    ProgramCount,
    compiled_function,
    first_array,
    label,
)
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN
from nbdist.engine.frameworks.jax.step.programs import UNNAMED


@pytest.fixture
def seen(monkeypatch, x):  # what is made before is not looked at
    monkeypatch.setattr(module, "spans", lambda array: len(array.sharding.device_set) > 1)
    found = Dispatched()
    found.devices = 8
    assert found.hook()
    yield found
    found._unhook()


@pytest.fixture
def auto():
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


@pytest.fixture
def x(auto):
    return jax.device_put(
        np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(auto, P("data"))
    )


def counted(seen, work):
    """How many programs some work is counted as, and whether it is what JAX has really run."""
    before = seen.count.programs
    jax.block_until_ready(work())
    return seen.count.programs - before


def test_a_function_counts_once_in_its_first_call_and_in_each_later_one(seen, x):
    double = jax.jit(lambda x: x * 2)
    assert [counted(seen, lambda: double(x)) for _ in range(4)] == [1, 1, 1, 1]


def test_first_and_later_calls_have_the_same_name(seen, x):
    def double(x):
        return x * 2

    def names(times):
        function = jax.jit(double)
        seen.in_step()
        for _ in range(times):
            function(x)
        return seen.count.names

    jax.clear_caches()
    fresh = names(3)
    assert names(3) == fresh
    warm = jax.jit(double)
    warm(x)
    seen.in_step()
    for _ in range(3):
        warm(x)
    assert seen.count.names == fresh


def test_an_operation_outside_of_any_function_counts(seen, x):
    assert [counted(seen, lambda: x + 1) for _ in range(3)] == [1, 1, 1]
    assert counted(seen, lambda: jnp.sum(x)) == 1


def test_what_stays_on_one_device_does_not_count(seen, x):
    alone = jax.device_put(np.ones(8, np.float32), jax.devices()[1])
    assert counted(seen, lambda: jax.jit(lambda x: x * 2)(alone) + 1) == 0
    assert counted(seen, lambda: jnp.ones(3) + 1) == 0
    assert not seen.count.any


def test_a_function_compiled_ahead_of_time_counts_in_each_call(seen, x):
    ahead = jax.jit(lambda x: x * 2).lower(x).compile()
    assert [counted(seen, lambda: ahead(x)) for _ in range(3)] == [1, 1, 1]


def test_a_function_inside_of_another_is_part_of_it(seen, x):
    inner = jax.jit(lambda x: x * 2)
    outer = jax.jit(lambda x: inner(inner(x)) + 1)
    assert [counted(seen, lambda: outer(x)) for _ in range(2)] == [1, 1]


def test_gradients_count(seen, x):
    grad = jax.jit(jax.grad(lambda x: (x * x).sum()))
    assert [counted(seen, lambda: grad(x)) for _ in range(2)] == [1, 1]
    assert counted(seen, lambda: jax.grad(lambda x: (x * x).sum())(x)) > 1


def test_mapped_functions_count(seen, x, auto):
    mapped = jax.jit(
        jax.shard_map(
            lambda x: jax.lax.psum(x, "data"), mesh=auto, in_specs=P("data"), out_specs=P()
        )
    )
    assert [counted(seen, lambda: mapped(x)) for _ in range(2)] == [1, 1]
    pmapped = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
    rows = np.arange(8.0, dtype=np.float32)
    assert [counted(seen, lambda: pmapped(rows)) for _ in range(3)][1:] == [1, 1]


def test_an_array_that_is_put_elsewhere_by_a_program_counts(seen, x, auto):
    moved = jax.jit(lambda x: x, out_shardings=NamedSharding(auto, P(None, "model")))
    assert counted(seen, lambda: moved(x)) == 1


def test_a_function_without_arguments_counts_by_its_outputs(seen, auto):
    make = jax.jit(lambda: jnp.ones((8, 2)), out_shardings=NamedSharding(auto, P("data")))
    assert [counted(seen, make) for _ in range(3)] == [1, 1, 1]


def test_a_function_without_outputs_counts_by_its_arguments(seen, x):
    nothing = jax.jit(lambda x: None)
    assert len({counted(seen, lambda: nothing(x)) for _ in range(3)}) == 1


def test_programs_on_some_of_the_devices_are_kept_apart(seen):
    some = jax.make_mesh((4,), ("d",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    y = jax.device_put(np.ones(8, np.float32), NamedSharding(some, P("d")))
    before = seen.serial
    jax.jit(lambda x: x * 2)(y)
    assert (seen.count.programs, seen.count.parts, seen.serial) == (0, 1, before)
    assert seen.count.any


def test_checks_for_nan_that_are_switched_on_in_the_middle_neither_stop_nor_are_stopped(seen, x):
    root = jax.jit(jnp.sqrt)
    assert [counted(seen, lambda: root(x)) for _ in range(2)] == [1, 1]
    jax.config.update("jax_debug_nans", True)
    try:
        assert [counted(seen, lambda: root(x)) for _ in range(3)] == [1, 1, 1]
        with pytest.raises(FloatingPointError):
            root(x - 100)
        before = seen.count.programs
        with jax.debug_nans(False):
            root(x)
        assert seen.count.programs == before + 1
    finally:
        jax.config.update("jax_debug_nans", False)
    assert [counted(seen, lambda: root(x)) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("settings", [plain_settings, lambda: jax.debug_nans(True)])
@pytest.mark.parametrize("already", [False, True])
def test_checks_for_nan_count_after_others_have_ended_on_a_thread(seen, x, settings, already):
    root = jax.jit(jnp.sqrt)
    assert counted(seen, lambda: root(x)) == 1
    try:
        jax.config.update("jax_debug_nans", already)
        with settings():
            pass
        jax.config.update("jax_debug_nans", True)
        assert [counted(seen, lambda: root(x)) for _ in range(2)] == [1, 1]
        with pytest.raises(FloatingPointError):
            root(x - 100)
    finally:
        jax.config.update("jax_debug_nans", False)


def test_checks_for_nan_on_one_thread_only_do_not_stop_it_either(seen, x):
    root = jax.jit(jnp.sqrt)
    with jax.debug_nans(True):
        assert [counted(seen, lambda: root(x)) for _ in range(3)] == [1, 1, 1]
    assert [counted(seen, lambda: root(x)) for _ in range(3)] == [1, 1, 1]


def test_programs_of_another_thread_count_and_those_of_an_ignored_one_do_not(seen, x):
    double = jax.jit(lambda x: x * 2)
    double(x)
    numbers = []

    def work():
        if numbers:
            seen.ignored.add(threading.get_ident())
        numbers.append(counted(seen, lambda: (double(x), x + 3)))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert numbers == [2, 0]


def test_names_and_their_order_make_the_checksum(seen, x):
    def run(*functions):
        seen.in_step()
        for function in functions:
            jax.jit(function)(x)
        return seen.count.names

    def one(x):
        return x + 1

    def two(x):
        return x + 2

    assert run(one, two) == run(one, two)
    assert run(one, two) != run(two, one)
    assert run(one, one) != run(one)
    assert len(seen.trail) >= 2


def test_names_are_the_same_in_every_process_and_differ_by_name_and_line():
    namespace = {}
    code = "def f(x):\n    return x\n\ndef g(x):\n    return x\n"
    exec(compile(code, "<cell 1>", "exec"), namespace)
    again = {}
    exec(compile(code, "<another process>", "exec"), again)
    assert label(namespace["f"]) == label(again["f"]) != label(namespace["g"])
    assert label(None) == UNNAMED
    assert label(jnp.sin) != UNNAMED


def test_the_arrays_that_a_program_made_are_known_by_its_number(seen, x):
    double = jax.jit(lambda x: (x * 2, {"b": x + 1}))
    first, second = double(x), double(x)
    of = seen.origins.of
    assert of(first[0]) == (0, seen.serial - 1, "0")
    assert of(first[1]["b"]) == (0, seen.serial - 1, "1")
    assert of(second[0]) == (0, seen.serial, "0")
    assert of(x) == UNKNOWN


def test_the_origin_of_an_array_stays_when_it_is_in_step_and_when_a_new_back_end_is_up(seen, x):
    y = jax.jit(lambda x: x * 2)(x)
    before = seen.origins.of(y)
    seen.in_step()
    seen.restart()
    assert seen.origins.of(y) == before
    z = jax.jit(lambda x: x * 3)(x)
    assert seen.origins.of(z) == (1, 1, "0")
    seen.origins.move(y, x)
    assert seen.origins.of(x) == before


def test_what_no_longer_exists_is_not_kept(seen, x):
    double = jax.jit(lambda x: x * 2)
    kept = double(x)
    for _ in range(200):
        x = double(x)
    gc.collect()
    assert {id(array) for array, _ in seen.origins} == {id(kept), id(x)}


def test_counting_anew_forgets_only_what_was_computed_since_all_were_in_step(seen, x):
    double = jax.jit(lambda v: v * 2)
    before = double(x)
    seen.in_step()
    since = double(x)
    assert (seen.serial, seen.count.programs) == (2, 1)
    kept = seen.origins.of(before)
    seen.renumber()
    assert (seen.serial, seen.generation, list(seen.trail)) == (0, 1, [])
    assert seen.origins.of(before) == kept
    assert seen.origins.of(since) == UNKNOWN
    after = double(x)
    assert seen.origins.of(after) == (1, 1, "0")
    seen.origins.forget(0, 0)
    assert seen.origins.of(before) == UNKNOWN
    assert seen.origins.of(after) == (1, 1, "0")


def test_a_new_back_end_begins_at_nothing(seen, x):
    jax.jit(lambda x: x * 2)(x)
    seen.restart()
    assert (seen.count, seen.serial, seen.generation) == (ProgramCount(), 0, 1)


def test_a_failing_program_does_not_end_the_count(seen, x):
    double = jax.jit(lambda x: x * 2)
    gone = double(x)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        double(gone)
    assert counted(seen, lambda: double(x)) == 1


def test_hooking_twice_counts_once(seen, x):
    assert seen.hook()
    assert counted(seen, lambda: x + 1) == 1


def test_nothing_is_left_when_the_hooks_are_taken_away(monkeypatch, x):
    api, pxla = sys.modules["jax._src.api"], sys.modules["jax._src.interpreters.pxla"]
    before = api._post_hook_state, pxla.ExecuteReplicated.__call__
    monkeypatch.setattr(module, "spans", lambda array: True)
    found = Dispatched()
    found.hook()
    assert api._post_hook_state is not before[0]
    found._unhook()
    assert (api._post_hook_state, pxla.ExecuteReplicated.__call__) == before
    jax.jit(lambda x: x * 2)(x)
    assert found.count == ProgramCount()


NEVER = object()


class Keeps:
    """Stands for JAX's hook state."""

    def __init__(self, hook=None, local=NEVER):
        self.hook, self.thread = hook, threading.local()
        self.thread.local = local

    def set_global(self, hook):
        self.hook = hook

    def set_local(self, hook):
        self.thread.local = hook

    def get_global(self):
        return self.hook

    def get_local(self):
        return getattr(self.thread, "local", NEVER)


def test_where_jaxs_hook_is_of_another_kind_nothing_is_hooked_and_nothing_changed(monkeypatch):
    api, pxla = sys.modules["jax._src.api"], sys.modules["jax._src.interpreters.pxla"]
    other, before = object(), pxla.ExecuteReplicated.__call__
    monkeypatch.setattr(api, "_post_hook_state", other)
    found = Dispatched()
    assert not found.hook()
    assert not found.hooked
    assert (api._post_hook_state, pxla.ExecuteReplicated.__call__) == (other, before)


def test_both_hooks_are_called_where_jax_has_one_of_its_own():
    calls, state = [], Keeps()
    both = module._Hooks(state, lambda *call: calls.append(("ours", call)))
    both.set_global(lambda *call: calls.append(("theirs", call)))
    state.hook(1, 2)
    both.set_global(None)
    state.hook(3)
    assert calls == [("ours", (1, 2)), ("theirs", (1, 2)), ("ours", (3,))]


def test_what_jax_had_hooked_before_goes_on():
    calls = []
    theirs = lambda *call: calls.append("theirs")  # noqa: E731
    for local, expected in (
        (NEVER, [["ours", "theirs"], NEVER]),
        (None, [["ours", "theirs"], NEVER]),
        (theirs, [["ours", "theirs"], ["ours", "theirs"]]),
    ):
        state = Keeps(theirs, local)
        both = module._Hooks(state, lambda *call: calls.append("ours"))
        both.place()
        found = []
        for hook in (state.hook, state.get_local()):
            calls.clear()
            found.append(hook if hook is NEVER else (hook(1), list(calls))[1])
        assert found == expected
        both.leave()
        assert state.hook is theirs


def test_checks_for_nan_from_before_go_on(monkeypatch, x):
    jax.config.update("jax_debug_nans", True)
    found = Dispatched()
    found.hook()
    try:
        with pytest.raises(FloatingPointError):
            jax.jit(jnp.log)(x - 100)
            jax.jit(jnp.log)(x - 100)
    finally:
        found._unhook()
        jax.config.update("jax_debug_nans", False)


def test_a_thread_that_had_checks_for_nan_before_is_counted(monkeypatch, x):
    with jax.debug_nans(True):
        pass
    monkeypatch.setattr(module, "spans", lambda array: True)
    found = Dispatched()
    found.devices = 8
    found.hook()
    double = jax.jit(lambda x: x * 2)
    assert [counted(found, lambda: double(x)) for _ in range(3)] == [1, 1, 1]
    found._unhook()


def test_without_jaxs_frame_a_first_call_has_no_name():
    assert compiled_function() == (None, None)


def test_some_array_of_a_tree_is_found_and_tracers_are_none():
    x = jnp.ones(3)
    assert first_array(((x, 1), 2)) is x
    assert first_array({"a": [1, x]}) is x
    assert first_array([]) is None
    assert first_array((1, "a", None)) is None
    assert first_array((np.ones(3), {"b": x})) is x
    inside = []
    jax.jit(lambda x: inside.append(first_array(x)) or x)(x)
    assert inside == [None]
