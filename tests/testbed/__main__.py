"""`python -m tests.testbed down` removes what killed test beds left; `up N` makes one to try by hand."""

from __future__ import annotations

import sys

from tests.testbed.hosts import TestBed
from tests.testbed.number import clear_abandoned


def down() -> None:
    for number in clear_abandoned():
        print(f"removed what test bed {number} left")


def up(count: int) -> None:
    with TestBed(count) as bed:
        print(f"up until Enter is pressed: ssh -F {bed.ssh_config} h1", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["down"]:
            down()
        case ["up", count]:
            up(int(count))
        case _:
            raise SystemExit("python -m tests.testbed down, or python -m tests.testbed up 3")
