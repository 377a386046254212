"""The tour as `make demo` shows it where there is no browser: in a terminal, from top to bottom."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.integration.executed import CELL_SECONDS, users_environment
from tests.integration.notebook import ANSI, gone
from tests.integration.tour import CLOSING, SPLIT, check_failure


def test_the_demo_runs_in_a_terminal_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    environment = users_environment(TMPDIR=str(tmp_path), IPYTHONDIR=str(tmp_path / "ipython"))
    with out.open("wb") as file:
        demo = subprocess.Popen(
            [sys.executable, "-m", "nbdist.cli", "demo"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        seen = descendants_until_the_end(demo)
    shown = out.read_text(encoding="utf-8")
    assert demo.returncode == 0, shown
    assert not ANSI.search(shown), "colors in a file"
    assert re.search(CLOSING, shown)
    # Asked for right after the cell that moved the parameters: what is there, not what was.
    moved = (
        r"^params\['hidden'\]\['kernel'\]  f32\[64, 256\]  P\(None, 'model'\)\n2 shards of 64 × 128"
    )
    assert re.search(moved, shown, re.M), shown
    assert SPLIT in shown
    assert "mesh data=4 × model=2\n" in shown
    assert re.search(r"^data 3   p3 · d0  .*p3 · d1  ", shown, re.M), shown
    check_failure(shown)
    assert len(seen) > 4, "nobody was seen"
    assert gone(list(seen)) == []
    assert [path.name for path in tmp_path.glob("nbdist-*")] == []


def descendants_until_the_end(demo: subprocess.Popen[bytes]) -> set[psutil.Process]:
    """All processes ever seen below this one while it ran."""
    root = psutil.Process(demo.pid)
    seen: set[psutil.Process] = set()
    deadline = time.monotonic() + 2 * CELL_SECONDS
    while demo.poll() is None:
        try:
            assert time.monotonic() < deadline, "it does not end"
            seen.update(root.children(recursive=True))
        except psutil.NoSuchProcess:
            break
        except AssertionError:
            demo.kill()
            raise
        time.sleep(0.1)
    demo.wait()
    return seen
