"""Handlers of the calls that a kernel makes on an engine, and the state that an engine keeps for them.

In come calls between cells, each a name, JSON and raw buffers (`nbdist.contract.calls`), and questions in the
middle of a cell (`nbdist.contract.asides`). Out go an answer of the call's type with its buffers, and messages
on the engine's output channel (`nbdist.contract.iopub`).

Read first: `calls.py` (every call and its handler) and `resident.py` (the state that each handler gets). How an
engine's process starts is in `nbdist.agent.programs`.
"""
