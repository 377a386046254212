"""Hosts of a session that lives: their processes report, and do with cells what a test has chosen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from nbdist import monitor
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import encode
from nbdist.launch.start.iopub import wire
from nbdist.session.engine_group import EngineGroup
from tests.builders.hosts import CONNECTION, FakeHosts, plan_of
from tests.builders.reports import report
from tests.builders.sockets import FakeSocket


class LiveHosts(FakeHosts):
    """Hosts whose processes report when they are asked to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.socket = FakeSocket(lambda milliseconds: time.sleep(0.0005))
        monkeypatch.setattr(monitor, "subscriber", lambda *_: self.socket)
        self._wire = wire(CONNECTION)
        self._sequence = 0
        self.published: list[Snapshot] = []
        self.answers |= {
            "initialize": lambda p, _: {
                "process_id": p,
                "version": "0.10.2",
                "global": 4,
                "ports": [8000 + p],
            },
            "meet": lambda p, _: {},
            "prove": lambda p, _: None,
            "look": self._look,
        }

    def _look(self, process_id: int, arguments: dict[str, Any]) -> dict[str, Any]:
        self._sequence += 1
        content = encode(report(process_id, sequence=self._sequence))
        message = self._wire.msg("nbdist_report", content)
        self.socket.put([b"nbdist.0", *self._wire.serialize(message)])
        return {"sequence": self._sequence}

    def begin(self, *names: str, **options: Any) -> EngineGroup:
        spawned = self.spawn(plan_of(*names, **options))
        group = EngineGroup.begin(
            spawned, session="s", progress=self.hear, publish=self.published.append
        )
        self.started.append(group)
        return group

    def asked_of(self, name: str) -> dict[int, dict[str, Any]]:
        return {p: arguments for p, asked, arguments in self.asked if asked == name}
