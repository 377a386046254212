"""Of changed modules it is said which processes still have the old ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.calls.engine import ImportedModules
from nbdist.session import keeping
from nbdist.session.keeping import files_brought, imported
from tests.builders.engines import FakeEngines, gone


def test_of_changed_modules_those_that_are_busy_are_named_and_those_that_end_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "IMPORTED_SECONDS", 0.0)
    asked: list[tuple[int, Any]] = []

    def answer(process_id: int, *, paths: tuple[str, ...]) -> Any:
        asked.append((process_id, paths))
        return {2: None, 3: gone()}.get(process_id, ImportedModules(modules=("steps",)))

    engines: Any = FakeEngines(imported=answer)
    engines.choice = SimpleNamespace(able=lambda: [0, 1, 2, 3])
    engines.cluster = SimpleNamespace(agents=SimpleNamespace(host_info=lambda process_id: None))
    files: Any = SimpleNamespace(path=lambda name, folder: f"/here/{name}")
    assert imported(engines, files, ["steps.py"]) == ({"steps": (0, 1)}, (2,))
    assert asked == [(p, ("/here/steps.py",)) for p in (0, 1, 2, 3)]


def test_where_there_are_no_files_or_no_other_hosts_nothing_is_said() -> None:
    agents: Any = SimpleNamespace(files=None, others=["h2"])
    assert files_brought(agents) == []
    agents = SimpleNamespace(files=object(), others=[])
    assert files_brought(agents) == []
