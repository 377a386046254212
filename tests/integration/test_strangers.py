"""A process in other hands: what it answers and publishes runs nothing in the notebook's kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import nbdist
from nbdist.errors import WireError

TURN = """
import ipyparallel.datapub
from pathlib import Path
from nbdist.engine.kernel.calls import Call

class Planted:
    def __reduce__(self):
        return Path.touch, (Path(PATH),)

as_it_was = Call.__call__
if turned:
    Call.__call__ = lambda self, *buffers: [Planted()]
    ipyparallel.datapub.publish_data({"planted": Planted()})
"""


def test_an_answer_that_would_run_something_is_refused_by_name_and_nothing_runs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "planted"
    with nbdist.start(2, platform="cpu") as session:
        session.run("import jax\nturned = jax.process_index() == 1\nx = 7")
        session.run(TURN.replace("PATH", repr(str(path))))
        with pytest.raises(WireError, match=r"process 1.*pathlib.*refused"):
            session.pull("x", on="1")
        assert session.pull("x", on="0") == 7
        session.run("Call.__call__ = as_it_was")
        assert session.pull("x", on="1") == 7
    assert not path.exists()
