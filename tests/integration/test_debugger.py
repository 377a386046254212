"""`breakpoint()` and `%debug` on a process, as a person at the notebook meets them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.notebook import Notebook, Output

START = "%dist_init -n 2 --devices-per-process 2 --platform cpu"
MAKE = """%%dist
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
me = jax.process_index()
mesh = jax.make_mesh((4,), ("x",))
w = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda i: np.ones(8, "float32")[i])
"""
STOPS = """%%dist{options}
y = me + 41
if me == 1:
    breakpoint()
total = float(w.sum())
print('total', total)
"""
SUM = "processes 0, 1   8.0"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("debugger")) as found:
        found.good("%load_ext nbdist")
        found.good(START)
        found.good(MAKE)
        yield found
        found.run("%dist_shutdown")


def answered(notebook: Notebook, code: str, *lines: tuple[str, str]) -> Output:
    """A cell with a person who types each line at its prompt."""
    request = notebook.send(code, person=True)
    for prompt, line in lines:
        assert notebook.asked(request, timeout_s=20) == prompt
        notebook.types(line)
    return notebook.collect(request)


def test_one_process_is_looked_at_while_the_other_waits_for_it(notebook: Notebook) -> None:
    output = answered(
        notebook,
        STOPS.format(options=" --grace 0.5"),
        ("process 1 ipdb> ", "p y * 100"),
        ("process 1 ipdb> ", "y = 7"),
        ("process 1 ipdb> ", "c"),
    )
    print(output.text)
    assert output.error is None, output.traceback
    assert "process 1   at a breakpoint in line 4, breakpoint(); the others wait" in output.text
    assert "ipdb> p y * 100\n4200\n" in output.text
    assert "processes 0, 1\ntotal 8.0" in output.text
    assert "in step again" not in output.text
    assert "process 1   7" in notebook.good("%dist --on 1 y").text
