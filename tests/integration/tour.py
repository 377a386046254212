"""What the tour shows, wherever it is run."""

from __future__ import annotations

import re

from tests.integration.executed import NOTEBOOKS
from tests.integration.notebook import ANSI

TOUR = NOTEBOOKS / "01_tour.ipynb"
CLOSING = r"4 processes on this machine, 8 cpu devices, jax \S+, ready in \d+\.\d s"
SPLIT = """\
params['hidden']['kernel']  f32[64, 256]  P(None, 'model') on mesh data=4 × model=2
2 shards of 64 × 128, 32 KB each, 4 replicas of each
[0:64, 0:128]    32 KB  p0 · d0, p1 · d0, p2 · d0, p3 · d0
[0:64, 128:256]  32 KB  p0 · d1, p1 · d1, p2 · d1, p3 · d1"""
FIRST_CAUSE = (
    r"process 1(?: \(host \S+\))?\n-+\nValueError .*\n(?:.*\n)*?Cell In\[\d+\], line 7\n(?:.*\n)*?"
    r"ValueError: empty batch\n(?P<below>(?:.*\n?)*)"
)
LINES_THAT_WAIT = ("line 8: new_params, new_opt_state", "line 9: print(float(loss))")


def check_failure(shown: str) -> None:
    """The first cause with its line, and where the three others were."""
    found = re.search(FIRST_CAUSE, ANSI.sub("", shown))
    assert found, shown
    said = re.findall(r"^process(?:es)? [^1].*   .*\bline \d+.*", found["below"], re.M)
    named = re.findall(r"\d+", " ".join(line.partition("   ")[0] for line in said))
    assert sorted(named) == ["0", "2", "3"], said
    assert any(place in line for line in said for place in LINES_THAT_WAIT), said
