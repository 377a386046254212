"""A session of Keras goes on with another number of processes: models, optimizers and the distribution."""

from __future__ import annotations

import numpy as np
import pytest

import nbdist
from nbdist.errors import ArrayError
from tests.builders.keras_cells import DISTRIBUTIONS, ROWS
from tests.variants import cases

SETUP = f"""{DISTRIBUTIONS}{ROWS}
def fit():
    x, y = mine()
    return model.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False).history["loss"]
"""
KERAS = {"devices_per_process": 2, "platform": "cpu", "framework": "keras"}


def values(session: nbdist.Session) -> list[bytes]:
    """Of all variables of the model and of its optimizer, whole."""
    names = "[v.value for v in (*model.variables, *model.optimizer.variables)]"
    found = [np.asarray(value).tobytes() for value in session.pull(names)]
    assert len(found) > 8
    return found


@pytest.mark.parametrize(
    ("distribution", "before", "after"),
    cases(("model_parallel", 3, 2), ("data_parallel", 2, 3), ("data_parallel", 2, 1)),
)
def test_a_model_trains_on_with_its_values(
    distribution: str, before: int, after: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with nbdist.start(processes=before, **KERAS) as session:
        session.run(f"{SETUP}distribute({distribution}())")
        session.run("model = new_model()\nlosses = fit()")
        there = values(session)
        said = session.resize(after)
        assert f"{after} process" in said.title and "All variables are kept." in said.text, said
        becomes = (f"batch={before} × model=2", f"batch={after} × model=2")
        if distribution == "data_parallel":
            becomes = (f"batch={2 * before}", f"batch={2 * after}")
        assert f"mesh {becomes[0]} becomes {becomes[1]}" in capsys.readouterr().out
        assert values(session) == there
        session.run(
            "d = keras.distribution.distribution()\n"
            f"assert type(d) is type({distribution}()), d\n"
            f"assert d.num_processes == {after} and d._process_id == jax.process_index()\n"
            f"assert d.device_mesh.devices.size == 2 * {after}\n"
            "more = fit()\n"
            "assert more[0] < losses[0]"
        )
        # As in a session that was started so: a model made now trains on the same mesh.
        session.run("model = new_model()\nagain = fit()")
        assert len(set(map(tuple, session.pull("again", each=True).values()))) == 1


def test_a_mesh_that_no_axis_fits_is_refused_and_nothing_is_changed() -> None:
    with nbdist.start(processes=2, **KERAS) as session:
        session.run(
            "import jax, keras\nnames = keras.distribution.list_devices()\n"
            "mesh = keras.distribution.DeviceMesh((2, 1, 2), ['a', 'b', 'c'], names)\n"
            "part = keras.distribution.DeviceMesh((2,), ['a'], names[:2])"
        )
        with pytest.raises(ArrayError, match=r"2 of 4 devices.*Nothing was changed"):
            session.resize(3)
        session.run("del part\nassert jax.process_count() == 2")
        assert "3 processes in place" in session.resize(3).title
        session.run("assert mesh.shape == (3, 1, 2), mesh.shape")
