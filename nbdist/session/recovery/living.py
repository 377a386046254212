"""The processes of a session while some of them are being replaced."""

from __future__ import annotations

from nbdist.session.engine_group import EngineGroup


class Living:
    """The processes while new ones are among them: how those before them ended is no reason to stop."""

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines
        self.send = engines.send
        self.where = engines.where

    def gone(self, process_id: int) -> str | None:
        """How a process has ended; None while it lives."""
        end = self._engines.link.exits.get(process_id)
        return None if end is None else str(end)
