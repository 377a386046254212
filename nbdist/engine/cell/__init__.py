"""The cell that runs: its lines, its output, how it is interrupted, and its debugger."""
