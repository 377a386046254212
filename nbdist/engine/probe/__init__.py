"""The thread that reports the devices, meshes, named arrays and models of a process, and how it finds them.

In come the user's namespace, the cell that runs, and an observer of each imported framework. Out go the sections
of a report, each as soon as it changes and again after a while. The probe only observes: it imports no framework
and runs nothing that users wrote, since a cell may be running.

Read first `probe.py`, the thread, then `observer.py`, one look, and `walk.py`, which finds the arrays.
"""
