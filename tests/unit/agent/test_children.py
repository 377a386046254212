"""Processes that an agent has started, and what it says of their ends."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

from nbdist.agent.processes import Children
from nbdist.contract.events import Events
from tests.waiting import wait_for


def test_the_last_words_are_those_of_the_process_and_not_of_the_one_before_it(
    tmp_path: Path,
) -> None:
    written = io.StringIO()
    children = Children(Events(written))

    def ended(text: str) -> dict[str, Any]:
        children.start(1, tmp_path / "log", lambda: _write(text), death_signal=9)
        wait_for(lambda: children.reap() or not len(children))
        return dict(json.loads(written.getvalue().splitlines()[-1]))

    assert ended("Fatal Python error: Bus error\n")["last_lines"] == [
        "Fatal Python error: Bus error"
    ]
    assert ended("")["last_lines"] == []
    assert ended("bye\n")["last_lines"] == ["bye"]


def _write(text: str) -> None:
    os.write(2, text.encode())
