"""A session: its engines, its cells, its values, and how it goes on after a failure or a kernel."""
