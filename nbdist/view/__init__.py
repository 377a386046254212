"""The picture of a session: as a live widget, in a side panel, as text, as a still."""
