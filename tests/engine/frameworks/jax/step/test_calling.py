"""A call in which the main thread waits is found by what its frame is in the middle of.

On one process all devices are its own; here an array on more than one device stands for one on those of several
processes.
"""

from __future__ import annotations

import linecache
import sys
import threading

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.engine.cell.stacks import MainThread
from nbdist.engine.frameworks.jax.step import programs as module
from nbdist.engine.frameworks.jax.step.programs import (
    calling,
    calls_over_processes,
    raising,
)

CELL = """
def call(g, plain, w, local, model):
    {}
"""


@pytest.fixture
def values(monkeypatch):
    monkeypatch.setattr(module, "spans", lambda array: len(array.sharding.device_set) > 1)
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    w = jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("d")))

    class Model:
        def __init__(self):
            self.params = {"a": [w]}

    return {"w": w, "local": jax.numpy.ones(3), "model": Model()}


def seen_in(line, values):
    """What is found while a line calls a function, which is a stand-in that looks at the frame that called it."""
    found = []

    class Plain:
        def __call__(self, *arguments, **options):
            found.append(calls_over_processes(sys._getframe(1)))
            return 0.0

    compiled = type("PjitFunction", (Plain,), {})()
    assert type(jax.jit(lambda x: x)).__name__ == module.COMPILED == type(compiled).__name__
    code, name = CELL.format(line), f"<cell of {line}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    namespace = {}
    exec(compile(code, name, "exec"), namespace)
    values["model"].step = compiled
    namespace["call"](compiled, Plain(), **values)
    return found


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("y = g(w)", True),
        ("y = 'ä', g(w)", True),
        ("y = float(g(w))", True),
        ("y = g(local, x=w)", True),
        ("y = g(local)", False),
        ("y = g(*[local, w])", True),
        ("y = model.step(model.params)", True),
        ("y = model.step(model.params['a'][0])", True),
        ("y = plain(w)", False),
    ],
)
def test_a_call_of_a_compiled_function_with_an_array_on_several_processes_is_found(
    values, line, is_one
):
    assert seen_in(line, values) == [is_one]


def test_a_main_thread_that_does_not_wait_is_in_no_such_call():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(calling(MainThread(threading.main_thread().ident or 0)))
    )
    thread.start()
    thread.join()  # in Python's own code, not in a call of a compiled function
    assert found == [False]


def test_what_is_being_raised_is_seen_from_another_thread():
    found = []

    def look():
        thread = threading.Thread(target=lambda: found.append(raising()))
        thread.start()
        thread.join()

    look()
    try:
        raise ValueError("hidden", 7)
    except ValueError:
        look()
    assert found == [None, "ValueError: hidden"]
