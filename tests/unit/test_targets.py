"""Target words."""

from __future__ import annotations

import pytest

from nbdist.errors import TargetError
from nbdist.session.cells.targets import parse

HOSTS = {0: "h1", 1: "h1", 2: "h2", 3: "h2", 4: "h2"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,2:4", (0, 2, 3)),
        ("[0,1-2]", (0, 1, 2)),
        ("[3]", (3,)),
        ("0-2,4", (0, 1, 2, 4)),
        ("0-4:2", (0, 2, 4)),
        ("[ 0 , 1-4:3 ]", (0, 1, 4)),
        ("3-3,host=h1,-1", (0, 1, 3, 4)),
        ("-1", (4,)),
        (":", (0, 1, 2, 3, 4)),
        ("::2", (0, 2, 4)),
        ("all", (0, 1, 2, 3, 4)),
        ("host=h2", (2, 3, 4)),
        ("host=h1,4", (0, 1, 4)),
        (" 3 , 1 ,3", (1, 3)),
    ],
)
def test_target_words_name_processes_in_ascending_order(
    text: str, expected: tuple[int, ...]
) -> None:
    assert parse(text, HOSTS) == expected


UNKNOWN = ["5", "[4-5]", "7:9", "host=h9", "x", "", "[0:2]", "[a]", "1:2:0"]
UNREADABLE = [
    "[]",
    "[1-0]",
    "3-1",
    "4-5",
    "1-",
    "0-1:0",
    "0-2-3",
    "[0,]",
    "0-99999999999999999",
    "1-x",
]


@pytest.mark.parametrize("text", [*UNKNOWN, *UNREADABLE])
def test_unknown_targets_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(TargetError, match=r"processes 0 to 4|Hosts of this session: h1, h2"):
        parse(text, HOSTS)


def test_a_range_that_cannot_be_read_says_what_is_wrong_with_it() -> None:
    with pytest.raises(TargetError, match=r"'3-1' in brackets: the range 3-1 runs backwards.*1-3"):
        parse("[3-1]", HOSTS)
    with pytest.raises(TargetError, match=r"'1-': '1-' is no number and no range"):
        parse("1-", HOSTS)
