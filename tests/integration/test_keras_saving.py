"""Models of Keras are saved by shard, and train on where they stood, on fewer processes and another mesh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ArrayError
from tests.builders.keras_cells import DISTRIBUTIONS, ROWS

MODEL = f"""{DISTRIBUTIONS}{ROWS}
distribute(model_parallel())
def train(found):
    return [float(found.train_on_batch(*mine())) for _ in range(2)]
def bits(found):
    every = [*found.variables, *found.optimizer.variables]
    mesh = keras.distribution.distribution().device_mesh.backend_mesh
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    gather = jax.jit(lambda x: x, out_shardings=whole)
    return [np.asarray(gather(one.value).addressable_data(0)).tobytes() for one in every]
"""


def start(processes: int) -> Session:
    found = nbdist.start(processes, devices_per_process=2, platform="cpu", framework="keras")
    found.run(MODEL)
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """A save by four processes, and what they had."""
    folder = tmp_path_factory.mktemp("saves") / "four"
    with start(4) as session:
        session.run("model = new_model(1)\ntrain(model)\nheld = {'model': model, 'epoch': 3}")
        assert session.save(folder, ["model", "held"]).names == ("model", "held")
        session.run("found = bits(model)")
        return folder, session.pull("found")


@pytest.fixture(scope="module")
def two() -> Iterator[Session]:
    with start(2) as session:
        yield session


def test_a_model_and_its_optimizer_are_what_they_were_and_train_on(
    two: Session, saved: tuple[Path, list[bytes]]
) -> None:
    folder, before = saved
    two.run("model = old = new_model(2)\ntrain(model)\nheld = {'model': model, 'epoch': 0}")
    two.run("found = bits(model)")
    assert two.pull("found") != before
    assert two.restore(folder).how["model"] == "as it lay before"
    two.run("found = bits(model)\nsame = model is old and held['model'] is old, held['epoch']")
    assert two.pull("found") == before
    assert two.pull("same") == (True, 3)
    two.run(
        "wanted = jax.sharding.PartitionSpec(None, 'model')\n"
        "assert model.layers[0].kernel.value.sharding.spec == wanted\n"
        "losses = train(model)"
    )
    # What it has trained on with is what was saved, in all that counts.
    two.run("again = train(model)")
    two.restore(folder, ["model"])
    two.run("assert train(model) == losses and train(model) == again")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("new_model(2, build=False)", "not here as it was saved: .* optimizer built as well"),
        ("new_model(2, units=8)", r"model\.layers\[0\]\.\w+ is array f32\[\S*8\] here and was"),
        ("new_model(2).layers[0]", "model is not here"),
        ("keras.callbacks.History()", r"object of Keras \(History\) that is not saved"),
        ("keras.Sequential([keras.layers.Dense(2)])", "a Sequential that has no arrays yet"),
        ("[1]", "model is not here"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(
    two: Session, saved: tuple[Path, list[bytes]], model: str, said: str
) -> None:
    two.run(f"model = {model}\nheld = {{'model': new_model(5), 'epoch': 0}}")
    two.run("found = bits(held['model'])")
    before = two.pull("found")
    with pytest.raises(ArrayError, match=said):
        two.restore(saved[0], ["held", "model"])
    two.run("found = bits(held['model'])")
    assert two.pull("found") == before
    assert two.pull("held['epoch']") == 0


def test_layers_optimizers_and_variables_are_saved_by_themselves(
    two: Session, tmp_path: Path
) -> None:
    two.run("whole = new_model(3)\ntrain(whole)")
    two.run("parts = [whole.layers[0], whole.optimizer, whole.layers[0].bias]\nfound = bits(whole)")
    before = two.pull("found")
    two.save(tmp_path / "it", ["parts"])
    two.run("train(whole)\nfound = bits(whole)")
    assert two.pull("found") != before
    two.restore(tmp_path / "it")
    two.run("again = bits(whole)\nkept = parts[0] is whole.layers[0]")
    again = two.pull("again")
    assert two.pull("kept")
    two.run(
        "saved = {id(v) for v in [*parts[0].variables, *parts[1].variables, parts[2]]}\n"
        "every = [*whole.variables, *whole.optimizer.variables]\n"
        "kept = [n for n, v in enumerate(every) if id(v) in saved]"
    )
    restored, trained = two.pull("kept"), two.pull("found")
    assert 2 < len(restored) < len(again)
    assert [n for n, one in enumerate(again) if one == before[n]] == restored
    # What was not saved, such as the last layer, is as it was trained since.
    assert all(again[n] == trained[n] for n in range(len(again)) if n not in restored)


def test_without_names_models_are_among_what_is_saved(two: Session, tmp_path: Path) -> None:
    two.run("trained = new_model(4)\ncallback = keras.callbacks.History()")
    said = two.save(tmp_path / "it")
    assert "trained" in said.names
    assert "callback" not in said.names
    assert not any("callback" in one for one in said.left_out)
