"""Calls from a kernel to an engine, and their answers: one dataclass for each call, one for each answer."""
