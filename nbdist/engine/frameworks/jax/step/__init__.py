"""Step: whether the collectives of this process still match those of the others.

In come the programs that this process sends to devices of several processes, seen by hooks in JAX; the beginnings
and ends of cells; and requests of the kernel to prove or to cut. Out go counts and names of the programs, and
results of proofs (`Sent`, `Trail`, `Labels`, `Proven`). A cut ends the collectives that wait; a repair follows.

Read first `step.py`, with all that an engine calls, and how processes prove to each other that they are in step;
then `dispatched.py`, how programs are seen and counted.
"""
