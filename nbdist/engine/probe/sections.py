"""The sections of a report that are due: changed ones, and each one again after a while."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbdist.contract.snapshot import Activity

REPEAT_SECONDS = 1.8
"""A kernel that attaches must know everything after two seconds; a look may come a little late."""

REPEAT_ACTIVITY_SECONDS = 0.9


def without_measures(activity: Activity) -> Activity:
    """Return an activity without the numbers that always change a little."""
    return replace(activity, cell_seconds=None, line_seconds=None, rss_bytes=0)


class Sections:
    """The newest version of each section, and when it was last published."""

    def __init__(self) -> None:
        self._newest: dict[str, Any] = {}
        self._compared: dict[str, Any] = {}
        self._published: dict[str, tuple[Any, float]] = {}

    def put(self, name: str, section: Any) -> None:
        """Take a section that is due whenever anything in it changes."""
        self._newest[name] = self._compared[name] = section

    def put_activity(self, activity: Activity) -> None:
        """Take the activity, which is not due for changed seconds or bytes alone."""
        self._newest["activity"] = activity
        self._compared["activity"] = without_measures(activity)

    def due(self, now: float) -> dict[str, Any]:
        """Return the sections to publish now, by name."""
        return {name: section for name, section in self._newest.items() if self._is_due(name, now)}

    def sent(self, due: dict[str, Any], now: float) -> None:
        """Note that the sections that were due have been published."""
        for name in due:
            self._published[name] = (self._compared[name], now)

    def forget(self) -> None:
        """Make all sections due again; safe from any thread."""
        self._published = {}

    def _is_due(self, name: str, now: float) -> bool:
        if name not in self._published:
            return True
        section, at = self._published[name]
        after = REPEAT_ACTIVITY_SECONDS if name == "activity" else REPEAT_SECONDS
        return now - at >= after or bool(section != self._compared[name])
