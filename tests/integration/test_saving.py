"""Variables saved by shard by four processes are those of two, and of four again, digit for digit."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ArrayError, GoneError, OptionError, ProcessError, SessionError, SpecError
from tests.builders.endings import kill
from tests.integration.notebook import Notebook
from tests.variants import cases

MESH = """
import os
import jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
def over(data, model):
    return jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
def put(array, *axes):
    return jax.device_put(array, NamedSharding(mesh, P(*axes)))
"""

MAKE = """
numbers = np.random.default_rng(7)
w = put(numbers.normal(size=(16, 8)).astype("f4"), "data", "model")
half = put(jnp.asarray(numbers.normal(size=(8, 8)), jnp.bfloat16), None, ("model", "data"))
def keys_of(seed):
    make = lambda: jax.random.split(jax.random.key(seed), 8)
    return jax.jit(make, out_shardings=NamedSharding(mesh, P("data")))()
state = step(w, tx.init(w))[1]
tree = {
    "w": w, "keys": keys_of(3), "key": jax.random.key(5), "local": jnp.arange(3),
    "numpy": np.linspace(0, 1, 5), "single": np.float32(0.1), "steps": 7, "rate": 0.1 + 0.2,
    "on": True, "turn": 1 - 2j, "text": "as", "nothing": None,
}
"""

STEP = """
tx = optax.adam(1e-3)
@jax.jit
def step(w, state):
    updates, state = tx.update(jnp.sin(w), state, w)
    return optax.apply_updates(w, updates), state
"""

STATE = "state = optax.adam(1e-3).init(jnp.zeros((16, 8)))"
VALUES = ("w", "half", "state", "tree")
Saved = tuple[Path, dict[str, bytes]]
"""A folder, and what was saved there."""


def start(processes: int, data: int) -> Session:
    found = nbdist.start(processes, devices_per_process=2, platform="cpu")
    found.run(f"{MESH}\nmesh = over({data}, {processes * 2 // data})")
    return found


def pulled(session: Session) -> dict[str, bytes]:
    """All bits of all arrays, by name and number; and what is no array, as text."""
    session.run(
        "def plain(x):\n"
        "    is_key = jnp.issubdtype(getattr(x, 'dtype', None), jax.dtypes.prng_key)\n"
        "    return jax.random.key_data(x) if is_key else x\n"
        f"parts = jax.tree.map(plain, jax.tree.leaves([{', '.join(VALUES)}]))"
    )
    parts = session.pull("parts")
    session.run("del parts, plain")
    return {
        str(n): part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
        for n, part in enumerate(parts)
    }


@pytest.fixture(scope="module")
def of_four(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A save by four processes, and what they had."""
    folder = tmp_path_factory.mktemp("saves") / "four"
    with start(4, 4) as session:
        session.run(STEP + MAKE)
        saved = session.save(folder)
        assert saved.names == VALUES
        return folder, pulled(session)


@pytest.fixture(scope="module")
def two(of_four: Saved) -> Iterator[Session]:
    with start(2, 2) as session:
        yield session


@pytest.fixture
def session(two: Session) -> Session:
    """Two processes that have a mesh and none of the variables."""
    two.run(
        "for name in ('w', 'half', 'state', 'tree', 'n', 'other', 'old'): globals().pop(name, None)"
    )
    two.run("mesh = over(2, 2)")
    return two


def text_of(session: Session, expression: str) -> str:
    session.run(f"said = str({expression})")
    return str(session.pull("said"))


def test_two_processes_have_what_four_saved_and_four_what_two_saved(
    session: Session, of_four: Saved, tmp_path: Path
) -> None:
    folder, before = of_four
    # Its classes are Optax's: a save has no code that could make them.
    session.run(f"{STEP}\n{STATE}")
    restored = session.restore(folder)
    assert restored.names == VALUES
    assert restored.how["w"] == "on mesh mesh (data=2, model=2)"
    assert pulled(session) == before
    assert text_of(session, "w.sharding.spec == P('data', 'model')") == "True"
    assert text_of(session, "type(state[0]).__name__") == "ScaleByAdamState"
    types = {"w": "ArrayImpl", "keys": "PRNGKeyArray", "key": "PRNGKeyArray", "local": "ArrayImpl"}
    types |= {"numpy": "ndarray", "single": "float32", "steps": "int", "rate": "float"}
    types |= {"on": "bool", "turn": "complex", "text": "str", "nothing": "NoneType"}
    assert text_of(session, "{k: type(tree[k]).__name__ for k in sorted(tree)}") == str(
        dict(sorted(types.items()))
    )
    session.save(tmp_path / "two", VALUES)
    with start(4, 2) as four:
        four.run(f"{STEP}\n{STATE}")
        four.restore(tmp_path / "two")
        assert pulled(four) == before
        # The next step computes: nothing lies where it cannot be used with the rest.
        four.run("w, state = step(w, state)\nfloat(w.sum())")


@pytest.mark.parametrize(
    ("there", "name", "how", "lies"),
    [
        (
            "w = put(np.zeros((16, 8), 'f4'), None, 'data')",
            "w",
            "as it lay before",
            "w.sharding.spec == P(None, 'data')",
        ),
        (STATE, "state", None, "state[0].mu.sharding.spec == P('data', 'model')"),
        (
            "mesh = jax.make_mesh((4,), ('x',), axis_types=(AxisType.Auto,))",
            "w",
            "replicated: there is no mesh with the axes data, model",
            "w.sharding.is_fully_replicated",
        ),
    ],
    ids=["as what is there", "as it was saved", "no such mesh"],
)
def test_how_it_lies_depends_on_what_is_there_and_is_said(
    session: Session, of_four: Saved, there: str, name: str, how: str | None, lies: str
) -> None:
    folder, _ = of_four
    session.restore(folder, ["w"])
    before = session.pull("w")
    session.run(f"del w\n{there}")
    restored = session.restore(folder, [name])
    assert how is None or restored.how == {name: how}
    assert text_of(session, lies) == "True"
    assert name != "w" or session.pull("w").tobytes() == before.tobytes()


@pytest.mark.parametrize(
    ("made", "then", "error", "said"),
    [
        (
            "n = put(np.arange(6.0), 'data')",
            "mesh = over(4, 1)",
            SpecError,
            r"data=4, which does not divide dimension 0 of 6.*1, 2, 3, 6",
        ),
        (
            "jax.config.update('jax_enable_x64', True)\nn = put(np.arange(4.0) + 1e-12, 'data')",
            "jax.config.update('jax_enable_x64', False)",
            ArrayError,
            r"was saved as f64\[4\] and came as f32\[4\]",
        ),
    ],
    ids=["an axis that does not divide", "64 bits"],
)
def test_what_cannot_be_had_as_it_was_saved_is_refused(
    session: Session, tmp_path: Path, made: str, then: str, error: type[Exception], said: str
) -> None:
    session.run(made)
    session.save(tmp_path / "it", ["n"])
    session.run(f"del n\n{then}")
    with pytest.raises(error, match=said):
        session.restore(tmp_path / "it")
    assert text_of(session, "'n' in globals()") == "False"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("put(np.zeros((8, 8), 'f4'))", r"f32\[8, 8\] here .* as array f32\[16, 8\]"),
        ("put(jnp.zeros((16, 8), 'bfloat16'))", r"array bf16\[16, 8\] here"),
        ("np.zeros((16, 8), 'f4')", r"NumPy array f32\[16, 8\] here"),
        ("{'a': 1}", "another|1 leaves, and 1 were saved"),
    ],
)
def test_what_is_there_and_does_not_fit_is_refused_and_nothing_changes(
    session: Session, of_four: Saved, value: str, said: str
) -> None:
    session.run(f"w = {value}\nhalf = put(jnp.ones((8, 8), 'bfloat16'))\nold = w, half")
    with pytest.raises(ArrayError, match=said):
        session.restore(of_four[0], ["half", "w"])
    assert text_of(session, "old[0] is w and old[1] is half") == "True"


@pytest.mark.parametrize(
    ("code", "names", "said"),
    [
        (
            "n = {'a': put(np.arange(4.0)), 'own': np.arange(3) + jax.process_index()}",
            ["n"],
            r"n\['own'\] differs between process 0 and process 1",
        ),
        (
            "n = {'a': put(np.arange(4.0))} | ({'b': 1} if jax.process_index() else {})",
            (),
            "n has another structure on process 1",
        ),
        ("n = 1\nif jax.process_index(): del n", ["n"], "no name 'n'"),
        ("n = put(np.arange(4.0))\nif jax.process_index(): del n", (), "n cannot .* process 1"),
    ],
)
def test_what_differs_between_processes_is_refused_before_anything_is_written(
    session: Session, tmp_path: Path, code: str, names: Sequence[str], said: str
) -> None:
    session.run(f"{code}\nother = put(np.arange(4.0))")
    with pytest.raises(ArrayError, match=said):
        session.save(tmp_path / "it", names)
    assert not (tmp_path / "it").exists()


def test_a_folder_that_is_no_save_stays_as_it_is(session: Session, tmp_path: Path) -> None:
    session.run("n = put(np.arange(4.0))")
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    for path, said in [(tmp_path, "'mine.txt' in it"), (mine, "is a file")]:
        with pytest.raises(OptionError, match=said):
            session.save(path)
        with pytest.raises(ArrayError, match="cannot be restored"):
            session.restore(path)
    assert [mine] == list(tmp_path.iterdir())
    assert mine.read_text() == "mine"


def test_a_folder_that_one_host_does_not_see_is_refused(session: Session, tmp_path: Path) -> None:
    session.run("n = put(np.arange(4.0))\nimport nbdist.engine.saving.folder as folders")
    session.run("before = folders.folder_of, folders.SEEN_SECONDS\nfolders.SEEN_SECONDS = 0.1")
    # As on a host where another disk has the same name.
    session.run(
        "if jax.process_index() == 1:\n"
        "    sees = folders.sees\n"
        "    folders.sees = lambda folder, token: sees(folder / 'elsewhere', token)"
    )
    with pytest.raises(OptionError, match=r"what process 0 .* writes there cannot be seen on"):
        session.save(tmp_path / "it")
    session.run("if jax.process_index() == 1: folders.sees = sees")
    assert not (tmp_path / "it").exists()
    session.save(tmp_path / "it")


def test_a_save_that_is_not_whole_is_refused(
    session: Session, of_four: Saved, tmp_path: Path
) -> None:
    copy = shutil.copytree(of_four[0], tmp_path / "copy")
    (copy / "nbdist-save.json").unlink()
    with pytest.raises(ArrayError, match="incomplete"):
        session.restore(copy)
    copy = shutil.copytree(of_four[0], tmp_path / "other")
    shutil.rmtree(copy / json.loads((copy / "nbdist-save.json").read_text())["arrays"])
    with pytest.raises(ArrayError, match=r"incomplete: its arrays, .* are missing"):
        session.restore(copy)


KILLED = {
    "before its shards": "if jax.process_index() == 1: saving.write_arrays = end",
    "with its shards written": (
        "import orbax.checkpoint as ocp\n"
        "whole = ocp.PyTreeCheckpointHandler.save\n"
        "def half(*arguments, **named):\n    whole(*arguments, **named)\n    end()\n"
        "if jax.process_index() == 1: ocp.PyTreeCheckpointHandler.save = half"
    ),
    "before it is named": "if jax.process_index() == 0: saving.folders.commit = end",
}


@pytest.mark.parametrize("killed", cases(*KILLED))
def test_a_save_killed_in_the_middle_leaves_the_one_before_whole(
    tmp_path: Path, killed: str
) -> None:
    folder = tmp_path / "it"
    with start(2, 2) as session:
        session.run("w = put(np.arange(8.0), 'data')")
        session.save(folder)
        session.run("w = w + 1\nimport nbdist.engine.saving.save as saving")
        session.run(f"def end(*_): os.kill(os.getpid(), 9)\n{KILLED[killed]}")
        with pytest.raises(GoneError):
            session.save(folder)
        session.recover()
        # Of what the process that ended had alone nothing is left, but the save before.
        session.restore(folder)
        assert session.pull("w").tolist() == np.arange(8.0).tolist()
        session.save(folder)
        assert len(list(folder.iterdir())) == 2


def test_a_process_that_does_not_come_is_waited_for_no_longer_than_asked(
    session: Session, tmp_path: Path
) -> None:
    session.run("n = put(np.arange(4.0))\nimport time, nbdist.engine.saving.save as saving")
    session.run(
        "write = saving.write_arrays\n"
        "def slow(*_):\n    while True: time.sleep(0.1)\n"
        "if jax.process_index() == 1: saving.write_arrays = slow"
    )
    with pytest.raises(SessionError, match=r"Allow more than 1\.0 s with timeout_s"):
        session.save(tmp_path / "it", timeout_s=1.0)
    session.run("saving.write_arrays = write")
    session.save(tmp_path / "it")


def test_a_flax_module_is_saved_by_its_state_and_restored_into_what_is_there(
    session: Session, tmp_path: Path
) -> None:
    session.run(
        "from flax import nnx\n"
        "def module(seed):\n"
        "    found = nnx.Linear(8, 16, use_bias=False, rngs=nnx.Rngs(seed))\n"
        "    laid = jax.tree.map(lambda x: put(x, None, 'model'), nnx.state(found))\n"
        "    nnx.update(found, laid)\n"
        "    return found\n"
        "other = module(0)\nn = {'step': 3, 'model': other, 'state': nnx.state(other)}"
    )
    assert session.save(tmp_path / "it").names == ("other", "n")
    before = session.pull("other")["kernel"].tobytes()
    session.run(
        "other = old = module(1)\nn = {'step': 0, 'model': other, 'state': nnx.state(other)}"
    )
    assert session.pull("other")["kernel"].tobytes() != before
    session.restore(tmp_path / "it")
    assert session.pull("other")["kernel"].tobytes() == before
    assert text_of(session, "(other is old, n['model'] is old, n['step'])") == "(True, True, 3)"
    assert session.pull("n['state']")["kernel"].tobytes() == before
    session.run("del other")
    with pytest.raises(ArrayError, match=r"other cannot be made anew.* by the function that init"):
        session.restore(tmp_path / "it", ["other"])


ORBAX = """
import orbax.checkpoint as ocp
def saved(name):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(FOLDER + name, {"w": w})
        checkpointer.wait_until_finished()
        found = checkpointer.restore(FOLDER + name, {"w": w})
    return float(found["w"].sum())
w = put(np.arange(8.0))
"""


def test_orbax_saves_after_a_repair_and_after_a_death(tmp_path: Path) -> None:
    with start(2, 2) as session:
        session.run(f"FOLDER = {str(tmp_path)!r}\n{ORBAX}assert saved('/before') == 28")
        with pytest.raises(ProcessError):
            session.run("if jax.process_index() == 0: 1 / 0\n(w + 1).block_until_ready()")
        session.run("assert saved('/repaired') == 28")
        kill(session, 1)
        session.recover()
        session.run("assert saved('/replaced') == 28")


def test_bad_names_are_refused(session: Session, of_four: Saved) -> None:
    with pytest.raises(ArrayError, match="no variable 'nope'; it has w, half, state, tree"):
        session.restore(of_four[0], ["nope"])
    with pytest.raises(OptionError, match="needs a name first"):
        session.save(of_four[0], ["tree['w']"])
    with pytest.raises(OptionError, match=r"give a list of names: \['w'\]"):
        session.save(of_four[0], "w")


def test_the_magics_say_what_was_saved_and_how_it_lies(notebook: Notebook, tmp_path: Path) -> None:
    folder = tmp_path / "it"
    made = "mesh = over(2, 2)\nw = put(np.arange(8.0), 'data')\nown = jnp.ones(2)"
    notebook.good(f"%%dist\n{MESH}{made}")
    said = notebook.shows(f"%dist_save {folder}", f"w (32 B) saved in {folder}")
    assert re.search("own: .* give its name", said)
    notebook.good("%dist del w")
    lies = f"w (32 B) restored from {folder}\n  w: on mesh mesh (data=2, model=2)"
    notebook.shows(f"%dist_restore {folder}", lies)
    notebook.fails(f"%dist_restore {tmp_path}/none", "no such folder")
