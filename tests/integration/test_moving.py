"""`%dist_push` and `%dist_pull` in a kernel: options, what is seen, interrupts, and processes that end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from tests.builders.cells import SPREAD
from tests.integration.notebook import Notebook
from tests.variants import cases

SETUP = f"""{SPREAD}
import signal
params = {{"a b": spread(np.arange(8.0, dtype="f4"), "x"), "n": 1}}
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

SHARED = """
import nbdist.session.values.pull, nbdist.session.values.push
import nbdist.machine.sealed as sealed
def no_memory(*_):
    raise OSError
nbdist.session.values.pull.Sealed = nbdist.session.values.push.Sealed = {}
"""
NOTHING_LEFT = """
import os
assert not any('nbdist-' in line for line in open('/proc/self/maps'))
fds = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]
assert not any('memfd:nbdist-' in os.readlink(fd) for fd in fds if os.path.exists(fd))
"""
NOT_PUSHED = "was interrupted; nothing was changed on any process."


@contextlib.contextmanager
def slowed(notebook: Notebook, magic: str, way: str, then: str = "pass") -> Iterator[None]:
    """Each part of an array takes a while, and before each something is done."""
    where, module, cls, method = WAYS[magic][way]
    if way == "messages":
        notebook.good(SHARED.format("no_memory"))
    notebook.good(where + SLOW.format(module=module, cls=cls, method=method, then=then))
    yield
    if way == "messages":
        notebook.good(SHARED.format("sealed.Sealed"))
    back = f"{where}\n{cls}.{method} = quick_{method}"
    if notebook.run(back).error is not None:
        notebook.good(back)  # what a new process has not is asked about once


def interrupted(notebook: Notebook, cell: str, seen: str) -> str:
    """What is said of a cell that is interrupted while it moves values."""
    request, _ = notebook.follow(cell, seen)
    return notebook.stopped(request).traceback


def nothing_left(notebook: Notebook, name: str) -> None:
    """Neither shared memory nor what was on its way is there any more, on any process or here."""
    notebook.good(f"%%dist --here{NOTHING_LEFT}")
    notebook.good(
        "%%dist\nfrom nbdist.engine.kernel.resident import Resident\n"
        f"assert Resident.of().moving._held is None\nglobals().pop({name!r}, None)"
    )


def test_a_tree_is_pulled_and_an_expression_under_a_name(notebook: Notebook) -> None:
    notebook.good("%dist_pull params k=params['a b'] twice=(params['a b'] * 2)")
    notebook.good("assert (params['n'], k.sum(), twice.sum()) == (1, 28.0, 56.0)")


def test_what_differs_comes_from_one_process_or_from_each(notebook: Notebook) -> None:
    values = ("process 0 has 0, process 1 has 1", "--on 0", "--each")
    assert "Traceback" not in notebook.fails("%dist_pull me", *values).traceback
    notebook.good("%dist_pull me --on 1\nassert me == 1")
    notebook.good("%dist_pull --each me\nassert me == {0: 0, 1: 1}")


def test_what_is_no_name_to_pull_into_is_refused(notebook: Notebook) -> None:
    notebook.fails("%dist_pull params['n']", "is no name", "NAME=params['n']")


def test_objects_of_the_notebook_s_own_classes_are_pushed(notebook: Notebook) -> None:
    notebook.good(
        "class Own:\n    factor = 3\n    def of(self, x): return x * self.factor\n"
        "own, add = Own(), lambda x: x + Own.factor\n%dist_push own add"
    )
    text = notebook.good("%%dist\nprint(own.of(2), add(2), type(own).__name__)").text
    assert text == "processes 0, 1   6 5 Own"


def test_an_array_is_pushed_under_a_sharding(notebook: Notebook) -> None:
    notebook.good("import numpy as np\nv = np.arange(12, dtype='f4')")
    notebook.good("%dist_push v --sharding \"NamedSharding(mesh, P('x'))\"")
    notebook.good("%%dist\nassert v.sharding.spec == P('x') and v.sum() == 66")


@pytest.mark.parametrize("way", cases("shared", "messages"))
@pytest.mark.parametrize("values", cases("x --sharding NamedSharding(mesh,P(\\'x\\'))", "x"))
def test_an_interrupted_push_says_so_in_one_line_and_leaves_nothing(
    notebook: Notebook, values: str, way: str
) -> None:
    cell = f"import numpy as np\nx = np.zeros(100 << 20, 'f4')\n%dist_push {values}"
    with slowed(notebook, "%dist_push", way):
        said = interrupted(notebook, cell, r"sent \d.* of 400 MB, .*/s")
    assert said == f"KeyboardInterrupt: the push of 'x' {NOT_PUSHED}"
    notebook.good("%%dist\nassert 'x' not in globals()")
    nothing_left(notebook, "x")


def test_a_push_that_is_interrupted_before_anything_is_sent_says_so_in_one_line(
    notebook: Notebook,
) -> None:
    # Not flushed: ipykernel loses one stop in some hundreds that comes while its stream is.
    notebook.good(
        "class Long:\n    def __reduce__(self):\n        import time\n"
        "        print('packing')\n        time.sleep(600)\nlong = Long()"
    )
    said = interrupted(notebook, "%dist_push long", "packing")
    assert said == f"KeyboardInterrupt: the push of 'long' {NOT_PUSHED}"


@pytest.mark.parametrize("way", cases("shared", "messages"))
def test_an_interrupted_pull_says_so_in_one_line_and_leaves_nothing(
    notebook: Notebook, way: str
) -> None:
    notebook.good("%%dist\ny = np.zeros(100 << 20, 'f4')")
    with slowed(notebook, "%dist_pull", way):
        said = interrupted(notebook, "y = 1\n%dist_pull y", r"received \d.* of 400 MB, .*/s")
    assert re.fullmatch("KeyboardInterrupt: the pull of 'y' was interrupted; nothing .*", said)
    notebook.good("assert y == 1")
    nothing_left(notebook, "y")


def test_a_pull_is_refused_during_a_cell_and_waits_for_the_repair_after_it(
    notebook: Notebook,
) -> None:
    fails = "%%dist --no-wait\nif me == 0: raise ValueError('now')\n"
    sent = notebook.send(f"{fails}jax.block_until_ready(params['a b'].sum())", person=True)
    notebook.collect(sent)
    notebook.good("import nbdist\nparams = None")
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
    notebook.good(f"%%dist\n{SETUP}")
    notebook.good("import numpy as np\nz = np.ones(50 << 20, 'f4')")
    notebook.good("%dist_push z\n%dist_pull pid=os.getpid() --on 0")
    # The first of the processes of a host gets the messages for all of it.
    then = "if calls == 2 and me == 0: os.kill(os.getpid(), signal.SIGKILL)"
    if WAYS[magic][way][0] != "%%dist":
        then = "if calls == 2: os.kill(pid, signal.SIGKILL)"
    with slowed(notebook, magic, way, then):
        failed = notebook.fails(f"{magic} z", "GoneError: process 0", "%dist_status")
    assert len(failed.traceback.splitlines()) == 1
    notebook.good("assert z.sum() == 50 << 20")
    # It was replaced when the next cell came.
    notebook.shows("%%dist\njax.process_index()", "process 0   0", "process 1   1")
