"""Types of everything that crosses a process border: reports, orders and events, calls, questions, messages."""
