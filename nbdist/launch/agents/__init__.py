"""The kernel's end of an agent: the channel to it, its orders and its events."""
