"""All that runs on the processes of a session; imports nothing outside the standard library but msgspec by itself.

In come cells, as ipyparallel's execute requests with a label; calls of a kernel, each a name, JSON and raw
buffers; questions that are answered while a cell runs; and interrupts. Out go the replies, the output of cells,
and reports of what the process does and holds. A framework is imported only where a session or its user asks.

Read first: `kernel/calls.py` (the one way in for a kernel's calls), `kernel/resident.py` (the state of an engine)
and `frameworks/__init__.py` (what JAX, Keras and TensorFlow each answer).
"""
