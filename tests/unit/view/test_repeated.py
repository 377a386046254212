"""When the outputs of running cells are sent again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nbdist.view.channel import BYTES_PER_SECOND, UNCHANGED_SECONDS, RepeatedOutputs


class Cells:
    """The cells of a kernel, as `ShownCells.of` answers them."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.running: set[str] = set()

    def of(self, wanted: Collection[str]) -> list[dict[str, Any]]:
        return [
            {"cell": cell, "running": cell in self.running, "outputs": [{"text": text}]}
            for cell, text in self.texts.items()
            if cell in self.running or cell in wanted
        ]


def test_nothing_is_sent_while_no_cell_runs() -> None:
    cells = Cells()
    cells.texts["a"] = "ended long ago"
    assert RepeatedOutputs().due(cells.of, 0.0) is None


def test_a_running_cell_is_sent_when_it_changes_and_once_more_when_it_has_ended() -> None:
    cells, repeated = Cells(), RepeatedOutputs()
    cells.texts["a"], cells.running = "1", {"a"}
    assert repeated.due(cells.of, 0.0) == {"type": "outputs", "cells": cells.of([])}
    cells.texts["a"] = "1 2"
    assert repeated.due(cells.of, 2.0) == {"type": "outputs", "cells": cells.of([])}
    cells.running = set()
    ended = repeated.due(cells.of, 4.0)
    assert ended is not None
    assert [cell["running"] for cell in ended["cells"]] == [False]
    assert repeated.due(cells.of, 6.0) is None


def test_what_has_not_changed_is_sent_more_rarely() -> None:
    cells, repeated = Cells(), RepeatedOutputs()
    cells.texts["a"], cells.running = "1", {"a"}
    assert repeated.due(cells.of, 0.0)
    assert repeated.due(cells.of, 0.9 * UNCHANGED_SECONDS) is None
    assert repeated.due(cells.of, UNCHANGED_SECONDS)


def test_large_outputs_take_no_more_than_so_many_bytes_in_the_mean() -> None:
    cells, repeated = Cells(), RepeatedOutputs()
    cells.texts["a"], cells.running = "x" * (5 * BYTES_PER_SECOND), {"a"}
    assert repeated.due(cells.of, 0.0)
    cells.texts["a"] += "more"
    assert repeated.due(cells.of, 4.9) is None
    assert repeated.due(cells.of, 5.1)
