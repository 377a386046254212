"""What a kernel asks of an engine, and what that answers: one dataclass a call, one an answer."""
