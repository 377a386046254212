"""What runs in a rehearsal's own process: a pod described to JAX, arrays without values, programs compiled for it.

Nothing of it runs in a session's processes, nor in a notebook's kernel but for `here` and what it compiles with.
"""
