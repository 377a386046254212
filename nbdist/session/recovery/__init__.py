"""Going on after a failure: the processes are proven to be in step, repaired where they are, or replaced.

What comes in: a cell that did not end alike on all processes, the end of a process or of a service, or a person's
`%dist_recover`. What goes out: processes that are in step, or a sentence that says why they are not.

Read first: `recovery.py`, the interface, with TensorFlow's way and that of processes which cannot be repaired;
`after.py`, its callers; `in_place.py`, the way of JAX and Keras.
"""
