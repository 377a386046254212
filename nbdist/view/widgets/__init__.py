"""Widgets that processes have made and displayed, as widgets of the notebook: equal ones once."""

from nbdist.view.widgets.board import Widgets
from nbdist.view.widgets.live import Event, LiveWidget

__all__ = ["Event", "LiveWidget", "Widgets"]
