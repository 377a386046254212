"""Slows a host down: `python throttle.py FIRST FACTOR`, until the end of input.

Of every tenth of a second the processes of the host of process FIRST run one FACTORth and are stopped for
the rest. The host's first process, its sshd and its network go on. A line on the output says that it works.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

PERIOD_SECONDS = 0.1


def members(first: int, space: str) -> list[int]:
    """The processes of the host that are slowed down, as this machine numbers them.

    Those are all but its first; but sshd, which drops connections when stopped; and but what entered the
    host, whose parent is on this machine, nsenter, which would stop with it and stay so.
    """
    parents: dict[int, int] = {}
    exempt = {first}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if str(entry.joinpath("ns", "pid").readlink()) == space:
                    name, _, words = entry.joinpath("stat").read_text().rpartition(")")
                    parents[int(entry.name)] = int(words.split()[1])
                    if name.endswith("(sshd"):
                        exempt.add(int(entry.name))
            except OSError:
                continue  # It ended meanwhile.
    return [pid for pid, parent in parents.items() if pid not in exempt and parent in parents]


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def input_ended(timeout_s: float) -> bool:
    return bool(select.select([sys.stdin], [], [], timeout_s)[0])


def main() -> None:
    first, factor = int(sys.argv[1]), float(sys.argv[2])
    running = PERIOD_SECONDS / factor
    space = str(Path(f"/proc/{first}/ns/pid").readlink())
    print("ready", flush=True)
    ended = False
    while not ended:
        pids = members(first, space)
        send(pids, signal.SIGSTOP)
        ended = input_ended(PERIOD_SECONDS - running)
        send(pids, signal.SIGCONT)
        ended = ended or input_ended(running)


if __name__ == "__main__":
    main()
