"""Facts that must be equal on all processes before they run a cell; imports no framework."""
