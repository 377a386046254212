"""An agent that waits for a coordination service goes on saying that it is there."""

from __future__ import annotations

import io
import os
import threading

import pytest

from nbdist.agent import coordination as module
from nbdist.agent.coordination import Services
from nbdist.agent.processes import Children
from nbdist.contract.events import Events
from tests.waiting import wait_for


@pytest.mark.parametrize("listens", [True, False])
def test_an_agent_says_that_it_is_there_while_it_waits_for_a_service(
    listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.01)
    beats: list[None] = []
    events = Events(io.StringIO())
    services = Services(
        Children(events), events, beat=lambda: beats.append(None), let_go=lambda: None
    )
    ready, serving = os.pipe()

    def serve() -> None:
        wait_for(lambda: len(beats) > 1)
        if listens:
            os.write(serving, b"1")
        os.close(serving)

    thread = threading.Thread(target=serve)
    thread.start()
    assert services.listens(ready) is listens
    thread.join()
    monkeypatch.setattr(module, "SERVES_SECONDS", 0.05)
    silent, nobody = os.pipe()
    assert not services.listens(silent)
    for descriptor in (ready, silent, nobody):
        os.close(descriptor)
