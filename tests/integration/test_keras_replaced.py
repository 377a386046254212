"""Processes of Keras that end are replaced: a model trains on with the losses of an undisturbed run."""

from __future__ import annotations

import pytest

import nbdist
from nbdist.errors import SessionError
from tests.builders.endings import kill
from tests.builders.keras_cells import DISTRIBUTIONS, ROWS
from tests.variants import cases

SETUP = f"""{DISTRIBUTIONS}{ROWS}
del me
x, y = mine()
def fit():
    global h
    h = model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
    return h.history["loss"]
"""


@pytest.mark.parametrize(
    ("processes", "lost", "distribution"), cases((2, 0, "model_parallel"), (3, 1, "data_parallel"))
)
def test_a_model_trains_on_with_the_losses_of_an_undisturbed_run(
    processes: int, lost: int, distribution: str
) -> None:
    with nbdist.start(
        processes=processes, devices_per_process=2, platform="cpu", framework="keras"
    ) as session:
        session.run(f"{SETUP}distribute({distribution}())")
        session.run("model = new_model()\nfit()\nundisturbed = fit()")
        session.run("model = new_model()\nfit()")
        kill(session, lost)
        with pytest.raises(SessionError, match=r"x, y were copied from process \d\.") as refused:
            session.run("found = fit()")
        session.run("x, y = mine()")
        said = str(refused.value)
        assert f"Process {lost} was replaced" in said
        # It lies on all processes.
        assert "model" not in said
        session.run("assert h.model is model and len(h.history['loss']) == 2")
        session.run("found = fit()")
        assert session.pull("found") == session.pull("undisturbed")
        session.run(f"assert type(keras.distribution.distribution()) is type({distribution}())")
