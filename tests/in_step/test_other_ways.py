"""What is no foreground cell of all processes: expressions, background cells, queued ones, sleeps, Keras' fit.

After each all values are those of an undisturbed run, the session is in step, and the training goes on exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

import nbdist
from nbdist.contract.calls.engine import Complete, Inspect
from nbdist.errors import ArrayError, CollectiveError, ProcessError, SessionError
from nbdist.session.cells.cellrun import CellHandle
from tests.in_step.disturb import interrupted
from tests.in_step.world import LIMIT_SECONDS, World
from tests.waiting import wait_for

LOOP = "print('in it', flush=True)\nfor i in range(100_000):\n    q = total(small)\n    time.sleep(0.002)"


def unharmed(world: World) -> None:
    """All values are as before, nothing is wrong, and the training goes on."""
    assert world.session.out_of_step is False
    world.unchanged()
    world.in_use("jax", 4)
    world.goes_on("jax")


def shards(world: World) -> None:
    for expression, shape in (("small[:4]", (4,)), ("total(small)", ())):
        assert world.session.shards(expression).arrays[0].shape == shape


def values(world: World) -> None:
    assert world.session.pull("total(small)") == 2016.0
    assert np.array_equal(world.session.pull("small[:4] + 1"), [1, 2, 3, 4])
    assert world.session.pull("float(total(small))", on="1") == 2016.0


def a_layout_of_a_call(world: World) -> None:
    assert world.session.layout("(total(small), kmodel)[1]").model.variables


def an_expression_that_fails_on_one(world: World) -> None:
    with pytest.raises(ArrayError, match="raised ZeroDivisionError on process 1"):
        world.session.pull("total(small) if me == 0 else 1 / 0")


def an_expression_that_computes_on_one_only(world: World) -> None:
    # The other never computes it, so that there is no right value.
    with pytest.raises(SessionError, match=r"process 0 did not end within 3\.0 s: interrupted"):
        world.session.pull("float(total(small)) if me == 0 else 0.0", timeout_s=3)


def an_expression_that_computes_more_on_one(world: World) -> None:
    # Without a collective nobody waits, and the pieces of one array would be of two steps.
    with pytest.raises(ArrayError, match="was not computed alike on all processes"):
        world.session.pull("[small * 2 for _ in range(1 + (me == 0))][0]")


def looking_at_a_property(world: World) -> None:
    world.session.ask_idle(Inspect(symbol="small.T", detail=0), timeout_s=30)
    world.session.ask_idle(Complete(code="small.T.", cursor=8), timeout_s=30)


WAYS: tuple[Callable[[World], None], ...] = (
    shards,
    values,
    a_layout_of_a_call,
    an_expression_that_fails_on_one,
    an_expression_that_computes_on_one_only,
    an_expression_that_computes_more_on_one,
    looking_at_a_property,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_expression_leaves_all_in_step(two: World, way: Callable[[World], None]) -> None:
    way(two)
    unharmed(two)


def test_a_program_on_small_arrays_that_waits_in_its_call_is_freed_after_the_grace_period() -> None:
    # With one device a process it runs inside of the call, and is counted when that returns.
    with nbdist.start(2, platform="cpu") as session:
        session.run(
            "import jax, numpy as np\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
            "split = NamedSharding(jax.make_mesh((2,), ('d',)), P('d'))\nme = jax.process_index()\n"
            "w = jax.device_put(np.ones(4, np.float32), split)\ng = jax.jit(lambda w: w.sum())\n"
            "for _ in range(3): float(g(w))"
        )
        with pytest.raises(CollectiveError, match=r"y = g\(w\) needs all 2 processes"):
            session.run("if me == 0: y = g(w)", grace_s=1.0, timeout_s=LIMIT_SECONDS)
        session.run("right = float(g(w))")
        assert session.pull("right", each=True) == {0: 4.0, 1: 4.0}


def ended(handle: CellHandle) -> dict[int, str]:
    """Waits until a cell in the background has ended, with an error; how it did on each process."""
    wait_for(lambda: handle.done)
    # What failed in the background is settled before this is answered.
    with pytest.raises(ProcessError):
        handle.wait(LIMIT_SECONDS)
    return {p: process.outcome for p, process in handle.outcomes.items()}


def test_a_background_cell_is_interrupted_in_the_middle_of_its_collectives(two: World) -> None:
    handle = two.session.run(LOOP, wait=False)
    wait_for(lambda: any("in it" in str(block) for block in handle.blocks()))
    time.sleep(0.1)
    two.session.interrupt()
    assert ended(handle) == {0: "interrupted", 1: "interrupted"}
    unharmed(two)


@pytest.mark.parametrize(
    ("code", "outcomes"),
    [
        ("for _ in range(1 + (me == 0)):\n    q = small * 2", {0: "finished", 1: "finished"}),
        (
            "if me == 1:\n    raise ValueError\nq = float(total(small))",
            {0: "interrupted", 1: "raised"},
        ),
    ],
    ids=["computes more", "fails"],
)
def test_a_background_cell_is_not_the_same_on_one_process(
    two: World, code: str, outcomes: dict[int, str]
) -> None:
    assert ended(two.session.run(code, wait=False)) == outcomes
    unharmed(two)


def test_a_cell_that_is_queued_behind_another_is_interrupted_with_it(two: World) -> None:
    first = two.session.run(LOOP, wait=False)
    wait_for(lambda: any("in it" in str(block) for block in first.blocks()))
    queued = two.session.run("queued = float(total(small))", wait=False)
    two.session.interrupt()
    assert ended(first) == {0: "interrupted", 1: "interrupted"}
    assert ended(queued) == {0: "not run", 1: "not run"}
    two.run("assert 'queued' not in globals()")
    unharmed(two)


@pytest.mark.parametrize(
    "imported", ["jax.extend.backend import clear_backends", "jax._src.api import clear_backends"]
)
def test_the_back_ends_of_a_cell_stay(two: World, imported: str) -> None:
    said = two.attempt(f"from {imported}\nclear_backends()")
    assert "Nothing was cleared. del NAME" in said.shown
    assert not said.repaired, said.text
    unharmed(two)


def test_a_plain_sleep_is_interrupted_and_nothing_is_repaired(two: World) -> None:
    said = interrupted(
        two, "print('in it', flush=True)\ntime.sleep(300)", lambda shown: "in it" in shown.text
    )
    assert not said.repaired
    unharmed(two)


FIT = """
class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if me == 1 and batch == 2:
            raise ValueError("in the middle")

kmodel.fit(inputs.repeat(8, 0), targets.repeat(8, 0), batch_size=16, epochs=2, shuffle=False, verbose=0,
           callbacks=[Breaks()])
"""


def test_fit_fails_on_one_process_in_the_middle_and_the_model_can_be_trained_on(
    two: World,
) -> None:
    said = two.attempt(FIT)
    assert said.error is not None
    assert two.session.out_of_step is False, said.text
    # The failed epoch has changed this model; what has gone is said, and a new one trains as it always did.
    two.run("begin('keras')")
    two.unchanged()
    two.goes_on("keras")
