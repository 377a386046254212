"""The states of a session's engines."""

from __future__ import annotations

import pytest

from nbdist.errors import SessionError
from nbdist.session.cells.facts import LifeState

ALLOWED = {
    ("STARTING", "RUNNING"),
    ("STARTING", "ENDED"),
    ("RUNNING", "REPAIRING"),
    ("RUNNING", "ENDED"),
    ("REPAIRING", "RUNNING"),
    ("REPAIRING", "ENDED"),
}


@pytest.mark.parametrize("before", LifeState, ids=lambda state: state.name)
@pytest.mark.parametrize("after", LifeState, ids=lambda state: state.name)
def test_only_the_ways_of_a_life_lead_from_one_to_another(
    before: LifeState, after: LifeState
) -> None:
    if before is after or (before.name, after.name) in ALLOWED:
        assert before.to(after) is after
    else:
        with pytest.raises(SessionError, match=f"is {before.value}, and cannot be {after.value}"):
            before.to(after)
