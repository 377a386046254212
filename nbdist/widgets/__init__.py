"""Widgets that processes have made and displayed, as widgets of the notebook: equal ones once."""

from nbdist.widgets.board import Event, LiveWidget, Widgets

__all__ = ["Event", "LiveWidget", "Widgets"]
