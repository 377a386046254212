"""The calls that a kernel makes on an engine, and what an engine keeps for them."""
