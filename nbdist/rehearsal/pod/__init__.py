"""The process of a rehearsal: JAX sees the devices of a pod, arrays without values, and compiles programs for it.

None of this runs in a session's processes, nor in a notebook's kernel except `here` and what `here` compiles with.
"""
