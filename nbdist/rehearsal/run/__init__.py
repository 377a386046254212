"""The kernel's end of rehearsals: a process of their own is started, given cells, interrupted and ended.

Neither JAX nor libtpu is loaded here.
"""
