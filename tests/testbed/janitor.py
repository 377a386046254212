"""Removes a test bed at the end of input: `python -m tests.testbed.janitor NUMBER`.

The bed and all its hosts hold the other end of that pipe, so links and folder go also when the bed's
own process was killed. The janitor holds the lock of the number until then.
"""

from __future__ import annotations

import sys

from tests.testbed.number import clear, folder, links

if __name__ == "__main__":
    sys.stdin.buffer.read()
    number = int(sys.argv[1])
    clear(number)
    if links(number) or folder(number).exists():
        sys.exit(f"test bed {number}: {links(number)} and {folder(number)} could not be removed")
