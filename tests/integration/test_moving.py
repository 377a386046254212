"""`%dist_push` and `%dist_pull` in a kernel: options, what is seen, interrupts, and processes that end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from tests.integration.notebook import Notebook, Output
from tests.variants import cases

SETUP = """%%dist
import jax, numpy as np, os, signal, time
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",))
params = {"a b": jax.device_put(np.arange(8.0, dtype="f4"), NamedSharding(mesh, P("x"))), "n": 1}
rank = jax.process_index()
"""

SLOW = """
from nbdist.{module} import {cls}
quick_{method} = {cls}.{method}
calls = 0
def slow_{method}(*arguments):
    import os, signal, time
    global calls
    calls += 1
    {then}
    time.sleep(0.7)
    return quick_{method}(*arguments)
{cls}.{method} = slow_{method}
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("moving")) as found:
        found.good("%load_ext nbdist")
        found.good("%dist_init -n 2 --devices-per-process 2 --platform cpu")
        found.good(SETUP)
        found.good("import numpy as np, nbdist")
        yield found
        found.run("%dist_shutdown")


WAYS = {
    "%dist_push": {
        "shared": ("", "machine.sealed", "Sealed", "write"),
        "messages": ("%%dist", "engine.values.incoming", "Incoming", "put"),
    },
    "%dist_pull": {
        "shared": ("%%dist", "engine.values.outgoing", "Outgoing", "write"),
        "messages": ("%%dist", "engine.values.outgoing", "Outgoing", "take"),
    },
}
"""Which method, and where, moves a part of an array, through shared memory and without."""

NONE_SHARED = """
import nbdist.session.values.pull, nbdist.session.values.push
def no_memory(*_):
    raise OSError
nbdist.session.values.pull.Sealed = nbdist.session.values.push.Sealed = no_memory
"""

SHARED = """
import nbdist.machine.sealed as sealed
nbdist.session.values.pull.Sealed = nbdist.session.values.push.Sealed = sealed.Sealed
"""


@contextlib.contextmanager
def slowed(notebook: Notebook, magic: str, way: str, then: str = "pass") -> Iterator[None]:
    """Each part of an array takes a while, and before each something is done."""
    where, module, cls, method = WAYS[magic][way]
    if way == "messages":
        notebook.good(NONE_SHARED)
    notebook.good(where + SLOW.format(module=module, cls=cls, method=method, then=then))
    yield
    if way == "messages":
        notebook.good(SHARED)
    back = f"{where}\n{cls}.{method} = quick_{method}"
    if notebook.run(back).error is not None:
        notebook.good(back)  # what a new process has not is asked about once


def interrupted(notebook: Notebook, cell: str, seen: str) -> Output:
    """What a cell shows that is interrupted while it moves values."""
    request = notebook.send(cell)
    notebook.collect(request, until=seen)
    notebook.interrupt()
    return notebook.collect(request)


def test_a_tree_is_pulled_and_an_expression_under_a_name(notebook: Notebook) -> None:
    notebook.good("%dist_pull params k=params['a b'] twice=(params['a b'] * 2)")
    assert notebook.good("params['n'], k.sum(), twice.sum()").text.endswith(
        "(1, np.float32(28.0), np.float32(56.0))"
    )


def test_what_differs_comes_from_one_process_or_from_each(notebook: Notebook) -> None:
    error = notebook.bad("%dist_pull rank").traceback
    assert "process 0 has 0, process 1 has 1. --on 0" in error and "--each" in error
    assert "Traceback" not in error
    notebook.good("%dist_pull rank --on 1\nassert rank == 1")
    notebook.good("%dist_pull --each rank\nassert rank == {0: 0, 1: 1}")


def test_what_is_no_name_to_pull_into_is_refused(notebook: Notebook) -> None:
    error = notebook.bad("%dist_pull params['n']").traceback
    assert "is no name to pull into. Give it one: NAME=params['n']" in error


def test_objects_of_the_notebook_s_own_classes_are_pushed(notebook: Notebook) -> None:
    notebook.good(
        "class Own:\n    factor = 3\n    def of(self, x): return x * self.factor\n"
        "own, add = Own(), lambda x: x + Own.factor\n%dist_push own add"
    )
    assert notebook.good("%%dist\nprint(own.of(2), add(2), type(own).__name__)").text == (
        "processes 0, 1   6 5 Own"
    )


def test_an_array_is_pushed_under_a_sharding(notebook: Notebook) -> None:
    notebook.good(
        "w = np.arange(12, dtype='f4')\n%dist_push w --sharding \"NamedSharding(mesh, P('x'))\""
    )
    notebook.good("%%dist\nassert w.sharding.spec == P('x') and w.sum() == 66")


@pytest.mark.parametrize("way", cases("shared", "messages"))
@pytest.mark.parametrize("values", cases("x --sharding NamedSharding(mesh,P(\\'x\\'))", "x"))
def test_an_interrupted_push_says_so_in_one_line_and_leaves_nothing(
    notebook: Notebook, values: str, way: str
) -> None:
    with slowed(notebook, "%dist_push", way):
        output = interrupted(
            notebook,
            f"x = np.zeros(100 << 20, 'f4')\n%dist_push {values}",
            r"sent \d.* of 400 MB, .*/s",
        )
    assert output.traceback.splitlines() == [
        "KeyboardInterrupt: the push of 'x' was interrupted; no process has anything of it, and nothing was "
        "changed."
    ]
    notebook.good(
        "%%dist --here\nimport os\n"
        "assert not any('nbdist-' in line for line in open('/proc/self/maps'))\n"
        "fds = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
        "assert not any('memfd:nbdist-' in os.readlink(fd) for fd in fds if os.path.exists(fd))"
    )
    notebook.good(
        "%%dist\nfrom nbdist.engine.kernel.resident import Resident\n"
        "assert 'x' not in globals() and Resident.of().moving._held is None"
    )


def test_a_push_that_is_interrupted_before_anything_is_sent_says_so_in_one_line(
    notebook: Notebook,
) -> None:
    notebook.good(
        "class Long:\n    def __reduce__(self):\n        import time\n"
        "        print('packing', flush=True)\n        time.sleep(600)\nlong = Long()"
    )
    output = interrupted(notebook, "%dist_push long", "packing")
    assert output.traceback == (
        "KeyboardInterrupt: the push of 'long' was interrupted; no process has anything of it, and nothing was "
        "changed."
    )


@pytest.mark.parametrize("way", cases("shared", "messages"))
def test_an_interrupted_pull_says_so_in_one_line_and_leaves_nothing(
    notebook: Notebook, way: str
) -> None:
    notebook.good("%%dist\ny = np.zeros(100 << 20, 'f4')")
    with slowed(notebook, "%dist_pull", way):
        output = interrupted(notebook, "y = 1\n%dist_pull y", r"received \d.* of 400 MB, .*/s")
    assert output.traceback.splitlines() == [
        "KeyboardInterrupt: the pull of 'y' was interrupted; nothing in this notebook was changed."
    ]
    notebook.good("assert y == 1")
    notebook.good(
        "%%dist\nfrom nbdist.engine.kernel.resident import Resident\nassert Resident.of().moving._held is None\n"
        "fds = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
        "assert not any('memfd:nbdist-' in os.readlink(fd) for fd in fds if os.path.exists(fd))\ndel y"
    )


def test_a_pull_is_refused_during_a_cell_and_waits_for_the_repair_after_it(
    notebook: Notebook,
) -> None:
    fails = "%%dist --no-wait\nif rank == 0: raise ValueError('now')\n"
    sent = notebook.send(f"{fails}jax.block_until_ready(params['a b'].sum())", person=True)
    notebook.collect(sent)
    notebook.good("params = None")
    while (pulled := notebook.run("%dist_pull params")).error:
        refused = r"SessionError: process [01] .*: its values are available when that has ended"
        assert re.match(refused, pulled.traceback)
        notebook.good("assert params is None")
    notebook.good("assert params['a b'].sum() == 28 and not nbdist.current().out_of_step")


# The last one: a process ends in it.


@pytest.mark.parametrize("way", cases("shared", "messages"))
@pytest.mark.parametrize("magic", cases("%dist_pull", "%dist_push"))
def test_a_process_that_ends_in_the_middle_is_named(
    notebook: Notebook, magic: str, way: str
) -> None:
    notebook.good(SETUP)
    notebook.good("z = np.ones(50 << 20, 'f4')\n%dist_push z\n%dist_pull pid=os.getpid() --on 0")
    # The first of the processes of a host gets the messages for all of it.
    then = "if calls == 2 and rank == 0: os.kill(os.getpid(), signal.SIGKILL)"
    if WAYS[magic][way][0] != "%%dist":
        then = "if calls == 2: os.kill(pid, signal.SIGKILL)"
    with slowed(notebook, magic, way, then):
        error = notebook.bad(f"{magic} z").traceback
    assert re.search(r"GoneError: process 0 has ended while values were moved: ", error)
    assert len(error.splitlines()) == 1
    assert "Nothing was changed; %dist_status shows" in error
    notebook.good("assert z.sum() == 50 << 20")
    # It was replaced when the next cell came.
    ranks = notebook.good("%%dist\njax.process_index()").text
    assert "process 0   0" in ranks and "process 1   1" in ranks
