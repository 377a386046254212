"""Widgets that processes have made and displayed, as widgets of the notebook: equal ones once."""

from nbdist.widgets.board import Event, LiveWidget, Widgets, widget_messages

__all__ = ["Event", "LiveWidget", "Widgets", "widget_messages"]
