"""Magics, and what else changes in a notebook's kernel: completion, and cells that run elsewhere.

In come lines and cells as a person types them, and the hooks that IPython calls before and after cells.

Out go calls: each magic reads its options and calls one method of `Session`, or one function of Python beside it;
then it displays what comes back. Errors say what to type.

Read first `options.py` (the table of the magics and their options), `commands.py` (what each does) and `parser.py`
(how a line of options is read); `typed.py` has what happens before a cell runs, and while it is typed.
"""
