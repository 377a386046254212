"""Tools by which another program, such as an agent, takes part in a session of its user.

A tool is one row of `TOOLS` (`table.py`): its name, what it does, its arguments as a dataclass (`arguments.py`),
what it needs (`read`, `run` or `recover`), and the function that answers. Both doors (`doors.py`) are made from
that table and call `table.ask`: the commands of a shell, and the server of the Model Context Protocol.

`participant.py` knows which session is meant and what is allowed. It attaches as a second kernel does, so its
cells wait in line behind those of others. `cells.py` follows these cells beyond the call that asked for them.
`answers.py` has all that is returned: plain data of bounded size, and errors as data.

The command `nbdist` imports the table for each of its commands, so no module of a session is imported before a
session is joined.
"""
