"""The machine that a process runs on: ports, folders, memory, accelerators; for notebooks, agents and engines."""
