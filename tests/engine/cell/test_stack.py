"""The line of the user's cell, whatever the main thread is inside of."""

import asyncio
import contextlib
import threading

import jax
import jax.numpy as jnp
import pytest

from nbdist.engine.cell.running import CurrentCell, place
from nbdist.engine.cell.stacks import (
    CodeOwners,
    StackDump,
    StackEntry,
    is_cell_file,
    stack_of_frames,
)
from nbdist.engine.frameworks import frameworks
from nbdist.engine.frameworks.keras import guards
from nbdist.engine.frameworks.keras.guards import agreement
from nbdist.engine.frameworks.keras.guards.call import GuardedCall
from tests.builders.clock import Sleeping

OWNERS = CodeOwners(frameworks())

CELL = "/tmp/ipykernel_17/482.py"
EARLIER = "/tmp/ipykernel_17/993.py"


class Stage:
    """Runs code as a cell and looks at it from another thread, wherever `look()` is called."""

    def __init__(self, read):
        self.read = read
        self.cell = CurrentCell()
        self.places = []
        self.names = {"look": self.look}

    def look(self):
        thread = threading.get_ident()
        observer = threading.Thread(
            target=lambda: self.places.append(place(self.read(thread), self.cell.running, OWNERS))
        )
        observer.start()
        observer.join()

    def define(self, source, filename=EARLIER):
        exec(compile(source, filename, "exec"), self.names)

    def run(self, source):
        self.cell.started(7, source)
        try:
            self.define(source, CELL)
        finally:
            self.cell.finished()
        return self.places


@pytest.fixture(
    params=[stack_of_frames, lambda ident: StackDump().read(ident)], ids=["frames", "dump"]
)
def read(request):
    return request.param


@pytest.fixture
def stage(read):
    return Stage(read)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/tmp/ipykernel_812/3847563.py", True),
        (r"C:\Users\me\AppData\Local\Temp\ipykernel_812\3847563.py", True),
        ("<ipython-input-3-0123abcd>", True),
        ("/home/me/train.py", False),
        ("/home/me/ipykernel_tools/train.py", False),
        ("<string>", False),
    ],
)
def test_cells_are_reported_by_the_names_ipython_gives_them(name, expected):
    assert is_cell_file(name) is expected


def test_the_line_is_the_one_at_the_top_level(stage):
    (found,) = stage.run("\nx = 1\n\n  \nif x:\n    look()  # here\n")
    assert (found.line, found.source, found.compiling) == (6, "look()  # here", False)


def test_a_function_of_this_cell_is_reported_by_its_own_line(stage):
    (found,) = stage.run("def step():\n    look()\nfor i in range(1):\n    step()\n")
    assert (found.line, found.source) == (2, "look()")


def test_a_function_of_an_earlier_cell_is_reported_by_the_line_that_calls_it(stage):
    stage.define("def step():\n\n\n    look()\n")
    (found,) = stage.run("x = 0\nstep()\n")
    assert (found.line, found.source) == (2, "step()")


def test_a_function_of_this_cell_called_through_an_earlier_one_is_reported_by_its_own_line(stage):
    stage.define("def apply(f):\n    f()\n")
    (found,) = stage.run("def inner():\n    look()\napply(inner)\n")
    assert found.line == 2


def test_lines_of_the_magic_above_the_code_count(stage):
    stage.cell.started(1, "\n\nlook()")
    exec(compile("\n\nlook()", CELL, "exec"), stage.names)
    assert (stage.places[0].line, stage.places[0].source) == (3, "look()")


def test_a_cell_that_awaits_is_on_no_stack_and_still_told_by_its_line(read):
    cell = CurrentCell()
    source = "import asyncio\nasync def rest():\n    await asyncio.sleep(0.2)\nawait rest()\n"
    code = compile(source, CELL, "exec", flags=__import__("ast").PyCF_ALLOW_TOP_LEVEL_AWAIT)
    places = []

    async def run():
        thread = threading.get_ident()
        cell.started(3, source)
        observer = threading.Timer(
            0.1, lambda: places.append(place(read(thread), cell.running, OWNERS))
        )
        observer.start()
        await eval(code, {})
        observer.join()

    asyncio.run(run())
    assert (places[0].line, places[0].source) == (3, "await asyncio.sleep(0.2)")


def test_where_no_frame_of_a_cell_is_found_there_is_no_line(stage):
    stage.cell.started(1, "%timeit x")
    stage.look()
    assert (stage.places[0].line, stage.places[0].source) == (None, None)


def test_tracing_counts_as_compiling_and_names_the_line_that_is_traced(stage):
    stage.names |= {"jax": jax, "x": jnp.ones(3)}
    (found,) = stage.run("@jax.jit\ndef f(x):\n    look()\n    return x\nf(x)\n")
    assert found.compiling
    assert found.line == 3


def test_lowering_and_xla_count_as_compiling_and_running_does_not(stage, monkeypatch):
    from jax._src import compiler
    from jax._src.interpreters import mlir

    def looking(module, name):
        original = getattr(module, name)

        def call(*arguments, **options):
            # Called from where the original is, so its frame stands in for the original's.
            with contextlib.suppress(RuntimeError):
                stage.look()
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    looking(compiler, "backend_compile_and_load")
    looking(mlir, "lower_jaxpr_to_fun")
    stage.names |= {"jax": jax, "x": jnp.ones(3), "f": jax.jit(lambda x: jnp.sin(x) + 41)}
    places = stage.run("f(x)\nlook()\n")
    assert len(places) >= 3
    assert all(p.compiling and p.line == 1 for p in places[:-1])
    assert not places[-1].compiling


def test_the_same_function_does_not_compile_without_jax(stage, monkeypatch):
    stage.names |= {"jax": jax, "x": jnp.ones(3)}
    monkeypatch.delattr(jax, "__file__")
    (found,) = stage.run("@jax.jit\ndef f(x):\n    look()\n    return x\nf(x)\n")
    assert not found.compiling


def test_frames_belong_to_the_framework_a_library_or_the_user():
    import threading as library

    import IPython
    import optax

    assert OWNERS.side(jax.__file__) == "framework"
    assert OWNERS.side(library.__file__) == "library"
    assert OWNERS.side(IPython.__file__) == "library"
    assert OWNERS.side(optax.__file__) == "user"
    assert OWNERS.side(CELL) == "user"
    assert OWNERS.side("/home/me/jax/train.py") == "user"
    assert OWNERS.side("<frozen importlib._bootstrap>") == "library"


@pytest.mark.parametrize(
    ("file", "function", "expected"),
    [
        (agreement.__file__, "_wait", "agreement"),
        (agreement.__file__, "_put", "library"),
        (guards.__file__, "until_ready", "framework"),
    ],
)
def test_a_wait_of_nbdist_counts_as_such_also_while_it_looks(stage, file, function, expected):
    # The innermost frame is one of the standard library, as when it reads what others wrote.
    stage.define(f"def {function}():\n    look()\n", file)
    (found,) = stage.run(f"x = 1\n{function}()\n")
    assert (found.inside, found.line) == (expected, 2)


def test_an_agreement_that_nobody_has_joined_is_a_wait_in_every_look(stage, monkeypatch):
    class Board:
        def put(self, text):
            self.text = text

        def read(self):
            stage.look()
            if len(stage.places) > 2:
                raise RuntimeError("enough")
            return {1: self.text}

    monkeypatch.setattr(agreement, "time", Sleeping(lambda seconds: stage.look()))
    part = agreement.CallAgreement(Board(), stage.cell, 1, "h")
    stage.names["meet"] = lambda: part.meet(GuardedCall(method="fit", host="h"), (0, 1))
    stage.cell.started(7, "meet()", run=1, targets=(0, 1))
    stage.define("meet()", CELL)
    assert [p.inside for p in stage.places] == ["agreement"] * 3


def test_a_cell_before_its_first_statement_has_no_line(stage):
    stage.cell.started(1, "x")
    entry = StackEntry(CELL, "<module>", 0)
    assert place((entry,), stage.cell.running, OWNERS).line is None
    assert place((entry,), stage.cell.running, OWNERS).inside == "user"
