"""The process of a rehearsal: JAX sees the devices of a pod, arrays without values, and compiles programs for it.

In come a topology, a mesh, and cells (`resident.py`) or a script (`__main__.py`). Out go the programs that their
jitted functions need: shown, or as lines of JSON in a file. None of this runs in a session's processes, nor in a
notebook's kernel except `backend.pod_here` and what it compiles with.

Read first `backend.py`, which puts the pod in the place of JAX's devices, then `trace.py`, which decides what
happens to each operation, and `pod.py`, which compiles.
"""
