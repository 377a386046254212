"""Moving values between the notebook and the processes of a running session, and from process to process.

In: values of the notebook with their names, or offers of values by processes; and the processes (`Processes`).
Out: names on the processes, values in the notebook; copies of arrays on other processes, and the rollback to them;
the namespace of a living process on a new one.

Read first: `flow.py` (a few messages at a time), `push.py` (from the notebook), `pull.py` (to the notebook).
"""
