"""Kills of the out-of-memory killer: counted in the group of the process, each explains one end."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.machine import processes
from nbdist.machine.processes import OutOfMemoryKills

V1 = "9:name=systemd:/\n4:cpu,memory:/jobs/7\n0::/\n"


class Machine:
    """Files as Linux has them, of one group and of others."""

    def __init__(self, root: Path, groups: str) -> None:
        self.root = root
        self.put("proc/self/cgroup", groups)
        self.host(0)

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def host(self, count: int) -> None:
        self.put("proc/vmstat", f"nr_free_pages 1\noom_kill {count}\n")


def explained(kills: OutOfMemoryKills, ends: int) -> list[bool]:
    kills.look()
    return [kills.explain_one() for _ in range(ends)]


@pytest.mark.parametrize(
    ("groups", "name", "text"),
    [
        ("0::/jobs/7\n", "sys/fs/cgroup/jobs/7/memory.events", "low 0\noom 3\noom_kill {}\n"),
        ("0::/gone/from/here\n", "sys/fs/cgroup/memory.events", "oom_kill {}\noom_group_kill 0\n"),
        ("0::/jobs/7\n", "sys/fs/cgroup/unified/jobs/7/memory.events", "oom_kill {}\n"),
        (V1, "sys/fs/cgroup/memory/jobs/7/memory.oom_control", "under_oom 0\noom_kill {}\n"),
        (V1, "sys/fs/cgroup/memory/memory.oom_control", "oom_kill {}\n"),
    ],
)
def test_a_kill_in_the_group_explains_one_end_and_one_of_another_group_none(
    tmp_path: Path, groups: str, name: str, text: str
) -> None:
    machine = Machine(tmp_path, groups)
    machine.put(name, text.format(5))
    kills = OutOfMemoryKills(tmp_path)
    assert explained(kills, 1) == [False]
    machine.host(4)
    assert explained(kills, 1) == [False], "another container's"
    machine.put(name, text.format(7))
    assert explained(kills, 3) == [True, True, False]
    assert explained(kills, 1) == [False]


def test_where_no_group_counts_the_machine_does(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "0::/\n")
    kills = OutOfMemoryKills(tmp_path)
    machine.host(1)
    assert explained(kills, 2) == [True, False]


def test_a_kill_that_no_end_follows_does_not_explain_one_much_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(processes.time, "monotonic", lambda: now[0])
    machine = Machine(tmp_path, "0::/\n")
    kills = OutOfMemoryKills(tmp_path)
    machine.host(1)
    kills.look()
    now[0] += processes.FRESH_SECONDS + 1
    assert explained(kills, 1) == [False]  # of something that the user had started, perhaps


def test_where_nobody_counts_nothing_is_explained(tmp_path: Path) -> None:
    assert explained(OutOfMemoryKills(tmp_path), 1) == [False]
