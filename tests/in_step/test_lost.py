"""What is lost, and said to be: what was being computed, and arrays whose pieces would not belong together.

After each of these cells the processes are in step, and no number is wrong: an array is right, or using it raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from nbdist.errors import ProcessError
from tests.in_step.world import World, world

PLACES = """
import types
add = jax.jit(lambda a: a + 1)

def in_closure(start):
    kept = start
    def put(new):
        nonlocal kept
        kept = new
    return put, lambda: kept

def in_generator(start):
    def running(kept):
        while True:
            new = yield kept
            if new is not None:
                kept = new
    found = running(start)
    next(found)
    return found.send, lambda: next(found)

class Holder:
    __slots__ = ("_kept",)

def in_slot(start):
    holder = Holder()
    holder._kept = start
    return (lambda new: setattr(holder, "_kept", new)), lambda: holder._kept

def under_a_private_name(start):
    global _kept
    _kept = start
    return (lambda new: globals().update(_kept=new)), lambda: _kept

def in_a_deque(start):
    kept = collections.deque([start], maxlen=1)
    return kept.append, lambda: kept[0]

def in_a_module(start):
    module = types.ModuleType("a_module")
    module.kept = start
    return (lambda new: setattr(module, "kept", new)), lambda: module.kept

def under_a_name(start):
    global plain
    plain = start
    return (lambda new: globals().update(plain=new)), lambda: plain

def begin_places(names):
    global kept
    kept = {name: globals()[name](spread(np.zeros(8, np.float32), split)) for name in names}
    step_all()

def step_all():
    for put, get in kept.values():
        put(add(get()))
"""
NAMES = tuple(name for name in re.findall(r"def (\w+)\(start\)", PLACES))

PATIENT_SECONDS = 30.0
"""For cells that all processes leave by themselves, however much slower one of them is."""
WAITING_SECONDS = 2.0
"""For cells in which one waits for ever; it may be so much slower than the other until then."""


@pytest.fixture(scope="module")
def places() -> Iterator[World]:
    with world(2, "jax") as found:
        found.run(PLACES)
        yield found


def mixed(places: World) -> list[str]:
    """The places whose global array is neither refused on all that have it, nor of one and the same."""
    return [name for name in NAMES if not right_or_refused(places, f"kept['{name}'][1]()")]


def right_or_refused(places: World, expression: str) -> bool:
    """Whether a global array is refused on all that have it; otherwise its pieces must be of one and the same."""
    try:
        places.run(f"total({expression}).block_until_ready()")
        places.run(
            f"seen = sorted({{float(v) for s in {expression}.addressable_shards for v in np.asarray(s.data)}})"
        )
    except ProcessError as error:
        assert "LostArrayError" in error.shown or "deleted" in error.shown, error.shown
        return True
    seen = places.values("seen")
    assert len({tuple(values) for values in seen.values()}) == 1, f"mixed: {seen}"
    return False


@pytest.mark.parametrize("size", ["small", "large"])
def test_what_was_being_computed_is_named_and_using_it_raises(places: World, size: str) -> None:
    said = places.attempt(
        f"a = b = 'as it was'\nif me == 1:\n    raise ValueError\na = total({size})\nb = add({size})",
        grace_s=WAITING_SECONDS,
    )
    assert said.repaired, said.text
    assert "a" in said.lost
    used = places.attempt("print('was', a if me else float(a))", timeout_s=59)
    assert "a was lost in" in used.shown
    places.run("a = total(small); again = float(a)")
    places.all_have("again", 2016.0)
    places.unchanged()


def test_one_process_is_some_steps_ahead_and_nothing_is_mixed(places: World) -> None:
    places.run(f"begin_places({NAMES})")
    said = places.attempt(
        "for i in range(10):\n    if me == 1 and i == 7:\n        raise ValueError\n    step_all()",
        grace_s=PATIENT_SECONDS,
    )
    assert said.repaired, said.text
    kinds = (f"kept (through a {kind})" for kind in ("Holder", "cell", "deque", "generator"))
    assert said.lost == {"_kept", "a_module.kept", "plain", *kinds}, said.text
    assert mixed(places) == []
    places.trains_again()


def test_all_have_sent_the_same_and_one_has_not_kept_the_last_and_nothing_is_mixed(
    places: World,
) -> None:
    places.run(f"begin_places({NAMES})")
    said = places.attempt(
        "for i in range(5):\n    new = [add(get()) for put, get in kept.values()]\n"
        "    if me == 1 and i == 4:\n        raise ValueError\n"
        "    for (put, get), one in zip(kept.values(), new):\n        put(one)",
        grace_s=PATIENT_SECONDS,
    )
    assert said.error is not None
    assert "kept (through a cell)" in said.lost, said.text
    assert mixed(places) == []
    places.run("del kept, new")  # which a process still has whole
    places.trains_again()


@pytest.mark.parametrize("before", ["computed before", "made before", "before a repair"])
def test_a_name_for_another_array_of_before_on_one_process_is_not_mixed(
    places: World, before: str
) -> None:
    places.run("best, params_now = add(small), add(add(small))")
    if before == "made before":
        places.run("best, params_now = [spread(np.full(64, v, np.float32), split) for v in (1, 2)]")
    if before == "before a repair":
        assert places.attempt("if me == 1:\n    raise ValueError\nq = total(small)").repaired
    said = places.attempt(
        "if me == 1:\n    raise ValueError\nbest = params_now\nprint('kept the best')",
        grace_s=PATIENT_SECONDS,
    )
    assert said.error is not None
    places.attempt("best_sum = float(total(best))")
    # Else half of one array, and half of another.
    places.all_have("globals().get('best_sum')", None)


def test_a_copy_of_the_names_is_kept_where_a_process_has_not_got_as_far(places: World) -> None:
    places.run("now = {'w': spread(np.ones(8), split)}; saved = now, 1")
    said = places.attempt(
        "new = {'w': add(now['w'])}\nif me == 1:\n    raise ValueError\nnow = new",
        grace_s=PATIENT_SECONDS,
    )
    assert said.error is not None
    assert said.lost == {"now['w']"}
    assert "now['w'] was lost in" in places.attempt("total(now['w'])").shown
    places.run("now, count = saved; back = float(total(now['w']))")
    places.all_have("back", 8.0)


def test_what_all_have_kept_before_one_fails_is_kept(places: World) -> None:
    places.run(f"begin_places({NAMES})")
    said = places.attempt(
        "for i in range(5):\n    step_all()\nif me == 1:\n    raise ValueError\nq = total(small)",
        grace_s=WAITING_SECONDS,
    )
    assert said.repaired, said.text
    places.run("sums = {name: float(total(get())) for name, (put, get) in kept.items()}")
    places.all_have("sums", dict.fromkeys(NAMES, 48.0))


MADE = (
    "jax.make_array_from_process_local_data(split, np.full(4, i, np.float32))",
    "jax.make_array_from_callback((8,), split, lambda part: np.full(8, i, np.float32)[part])",
)
FAILS = "    if me == 1 and i == 5:\n        raise ValueError\n"


@pytest.mark.parametrize("make", MADE, ids=["process_local_data", "callback"])
@pytest.mark.parametrize(
    "loop", [f"{FAILS}    made = {{}}", f"    made = {{}}\n{FAILS}"], ids=["before", "after"]
)
def test_arrays_that_no_program_has_computed_are_not_mixed(
    places: World, make: str, loop: str
) -> None:
    cell = f"for i in range(10):\n{loop.format(make)}"
    said = places.attempt(cell, grace_s=PATIENT_SECONDS)
    assert said.error is not None
    assert said.lost == {"made"}
    assert "made was lost in" in places.attempt("print(float(total(made)))").shown
    places.run(f"i = 3; made = {make}; made_sum = float(total(made))")
    places.all_have("made_sum", 24.0)


def test_arrays_that_all_have_made_before_one_fails_stay(places: World) -> None:
    said = places.attempt(f"i = 3\nmade = {MADE[0]}\nif me == 1:\n    raise ValueError")
    assert said.lost == set(), said.text
    places.run("made_sum = float(total(made))")
    places.all_have("made_sum", 24.0)


@pytest.mark.parametrize(
    ("raises", "error"),
    [
        ("raise ValueError", "ValueError"),
        ("import signal; signal.raise_signal(signal.SIGINT)", "KeyboardInterrupt"),
    ],
    ids=["error", "Ctrl-C"],
)
def test_a_process_that_catches_its_error_and_goes_on_has_its_numbers_disowned(
    places: World, raises: str, error: str
) -> None:
    said = places.attempt(
        f"try:\n    for i in range(10):\n        if me == 1 and i == 5:\n            {raises}\n"
        f"        made = {MADE[0]}\nexcept {error}:\n    pass\n"
        "made_sum = total(made)\nprint(float(made_sum))"
    )
    assert "of different arrays: array 10" in str(said.error)
    assert "may be wrong" in said.shown
    assert said.lost >= {"made", "made_sum"}
    places.trains_again()


def test_steps_on_some_of_the_devices_are_not_mixed(places: World) -> None:
    places.run(
        "some = NamedSharding(jax.sharding.Mesh(np.array(jax.devices())[::2], ('d',)), P('d'))\n"
        "u = jax.device_put(np.zeros(2, np.float32), some)"
    )
    loop = "for i in range(6):\n    if me == 1 and i == 4:\n        {}\n    u = add(u)"
    said = places.attempt(loop.format("raise ValueError"), grace_s=PATIENT_SECONDS)
    assert said.error is not None
    assert said.lost == {"u"}, said.text
    places.run("u = add(jax.device_put(np.zeros(2, np.float32), some)); right = float(total(u))")
    places.all_have("right", 2.0)
    broken = places.attempt(loop.format("break"))
    assert "process 0 sent 6, process 1 sent 4" in str(broken.error)
    assert broken.lost == {"u"}, broken.text


def test_rows_of_different_numbers_are_refused_before_a_number_is_printed(places: World) -> None:
    make = "rows = jax.make_array_from_process_local_data(split, np.ones({}, np.float32))\n"
    said = places.attempt(
        make.format("12 - 4 * me") + "print(f\"{'mean'} was {rows.mean()}\")",
        grace_s=WAITING_SECONDS,
    )
    assert "ArrayError" in said.shown
    assert "it is one array only where each process gives as many rows" in said.shown
    assert "mean was" not in said.text, said.text
    places.run(f"{make.format('4')}right = float(rows.mean())")
    places.all_have("right", 1.0)
    # Both shapes are known, and neither is that of the first of the cell: found as soon as the cell has ended.
    said = places.attempt(
        "for n in (4, 4 + 4 * me):\n"
        "    rows = jax.make_array_from_process_local_data(split, np.ones(n, np.float32))\n"
        "    means = total(rows)"
    )
    assert "<lambda>() of different arrays" in str(said.error)
    assert said.lost >= {"rows", "means"}


SHAPES = {
    "pmap": "jax.pmap(lambda v: jax.lax.psum(v, 'i'), axis_name='i')(np.ones((2, {}), np.float32))",
    "process_allgather": "multihost_utils.process_allgather(np.ones({}, np.float32))",
}
GATHER = (
    "from jax.experimental import multihost_utils\nfound = float(np.asarray({}).ravel()[0])\n"
    "print(f\"{{'found'}} was {{found}}\")"
)


@pytest.mark.parametrize("call", SHAPES.values(), ids=SHAPES)
def test_what_waits_for_arrays_of_other_shapes_ends_and_the_next_cells_run(
    places: World, call: str
) -> None:
    said = places.attempt(GATHER.format(call.format("2 + me")), grace_s=WAITING_SECONDS)
    assert "Arrays on several processes must have the same shape on each" in said.shown
    assert "found was" not in said.text, said.text
    places.run(GATHER.format(call.format("2")))
    assert len(set(places.values("found").values())) == 1
    places.trains_again()


def test_a_repair_while_functions_are_not_compiled_leaves_that_to_be_turned_off(
    places: World,
) -> None:
    places.run("jax.config.update('jax_disable_jit', True)")
    said = places.attempt("if me == 1:\n    raise ValueError\nq = total(small)")
    assert said.repaired, said.text
    assert "ValueError" in str(places.attempt("raise ValueError").error)
    places.run("assert jax.config.jax_disable_jit\njax.config.update('jax_disable_jit', False)")
    places.trains_again()


def test_one_function_that_is_compiled_to_other_collectives_fails_the_cell(places: World) -> None:
    said = places.attempt("wrong = jax.jit(lambda w: w.sum() if me else w.max())(small)")
    for process, collective in enumerate(("all-reduce(maximum)", "all-reduce(add)")):
        assert f"{collective} f32[] on process {process}" in str(said.error)
    assert said.lost == {"wrong"}
    places.trains_again()


def test_a_function_that_has_run_before_on_one_process_is_no_difference(places: World) -> None:
    # Of JAX's own functions the order is not compared, and nothing is repaired, which has all compile again.
    places.run("(jnp.sin if me else jnp.cos)(small)")
    said = places.run("both = float(total(jnp.sin(small) * 0 + small))")
    assert not said.repaired, said.text
    places.all_have("both", 2016.0)


def test_a_program_that_a_repair_changes_says_so_at_its_line_and_others_say_nothing(
    places: World,
) -> None:
    places.run(
        "SCALE, kept_scale = 1.0, 1.0\n"
        "scaled = jax.jit(lambda w: w.sum() * SCALE)\n"
        "alone = jax.jit(lambda x: x * SCALE)\n"
        "plain = jax.jit(lambda w: w.sum() * kept_scale)\n"
        "first = float(scaled(small)), float(alone(2.0)), float(plain(small))"
    )
    places.run("SCALE = 5.0\nfirst += (float(scaled(small)),)")
    places.all_have("first", (2016.0, 2.0, 2016.0, 2016.0))
    said = places.attempt("if me == 1:\n    raise ValueError\nq = total(small)")
    assert said.repaired, said.text
    said = places.attempt(
        "later = float(scaled(small)), float(plain(small))\nlater += (float(alone(2.0)),)"
    )
    places.all_have("later", (5 * 2016.0, 2016.0, 10.0))
    lines = re.findall(r"(line \d).*was compiled again after a repair", said.text)
    assert lines == ["line 1", "line 2"], said.text
    assert "compiled again" not in places.attempt("later = float(scaled(small))").text
