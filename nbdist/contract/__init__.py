"""What crosses the border between processes, as types: reports, orders and events, calls, questions, messages."""
