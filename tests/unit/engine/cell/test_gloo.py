"""What gloo writes is taken out of the output of a process, however its parts are mixed."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from nbdist.engine.cell.output import Gloo


def shown(pieces: Iterable[str]) -> str:
    """What is left where these are read one after the other."""
    gloo = Gloo()
    return b"".join(gloo.left_of(piece.encode()) for piece in pieces).decode()


def parts(rank: int) -> list[str]:
    """One message of gloo's as it is written."""
    expected = "Expected number of connected peer ranks is : "
    return [
        "[Gloo] Rank ",
        f"{rank}",
        " is connected to ",
        "3",
        " peer ranks. ",
        expected,
        "3",
        "\n",
    ]


MESSAGE = "".join(parts(1))


@pytest.mark.parametrize("seed", range(40))
def test_parts_of_several_messages_of_gloos_may_be_mixed_and_read_at_any_moment(seed: int) -> None:
    chance = random.Random(seed)
    messages = [parts(rank) for rank in range(chance.randint(2, 4))]
    mixed = []
    while any(messages):
        mixed.append(chance.choice([one for one in messages if one]).pop(0))
    pieces = ["mine\n"]
    for part in mixed:
        if chance.random() < 0.5:
            pieces.append("")
        pieces[-1] += part
    assert shown([*pieces, "12\n", "3"]) == "mine\n12\n3", pieces


@pytest.mark.parametrize(
    "text",
    [
        "12\n",
        "3",
        "\n",
        "50%\r100%\n",
        "my [Gloo] of peer ranks\n",
        f"see: {MESSAGE}",
        "peer\n ranks",
    ],
)
def test_what_others_write_is_shown_as_it_is(text: str) -> None:
    assert shown([text]) == text
    assert shown([MESSAGE, text]) == text


def test_attempts_to_connect_to_nobody_are_not_shown_and_others_are() -> None:
    failed = (
        "[external/gloo/gloo/transport/tcp/debug_logger.cc:25] ERROR failed to connect, willRetry=1, retry=1, "
        "rank=0, local=[127.0.0.1]:152, remote=[{0}]$10, error=SO_ERROR: Connection refused, remote=[{0}]$10\n"
    )
    real = failed.format("10.0.0.7]:4711[")
    assert shown([failed.format("0.0.0.0"), "mine\n", failed.format("::"), real]) == f"mine\n{real}"
