"""The kernel's end of rehearsals: a process of their own is started, given cells, interrupted and ended.

In come a cell or a script, and the pod and meshes that were asked for. Out go the outputs as they come, the
programs that the process reports, and with several meshes a `Comparison`. Neither JAX nor libtpu is loaded here.

Read first `asked.py`, then `rehearsing.py` with `process.py` for cells or `script.py` for scripts, and
`side_by_side.py` for several meshes.
"""
