"""Additions to a notebook's kernel: progress, completion, and cells that run elsewhere."""
