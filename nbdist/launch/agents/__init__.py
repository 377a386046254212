"""The kernel's end of an agent: the channel to it, and what it says."""
