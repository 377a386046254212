"""Handlers of the calls that a kernel makes on an engine, and the state that an engine keeps for them."""
