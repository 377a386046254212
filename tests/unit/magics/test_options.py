"""How the words behind a magic are read."""

from __future__ import annotations

import pytest

from nbdist.errors import OptionError
from nbdist.magics.options import (
    HelpShown,
    before_expression,
    dist,
    dist_init,
    dist_layout,
    dist_mesh,
    dist_shards,
    limit,
    start_arguments,
)


def test_a_comment_behind_the_options_is_none_of_them() -> None:
    asked = dist_init().parse("--hosts h1:2,h2:2   # names your ssh knows")
    assert start_arguments(asked)["hosts"] == "h1:2,h2:2"
    assert start_arguments(dist_init().parse("--env X=a#b"))["environment"] == {"X": "a#b"}


def test_hosts_with_blanks_between_them_are_reported_how_lists_are_written() -> None:
    with pytest.raises(OptionError, match=r"takes no 'h2'\. Lists have commas and no blanks"):
        dist_init().parse("--hosts h1, h2")


def test_an_unknown_option_is_reported_with_the_nearest_and_few_of_many() -> None:
    with pytest.raises(OptionError) as raised:
        dist_init().parse("--host h1")
    assert str(raised.value) == (
        "%dist_init has no option '--host'. Did you mean --hosts? See %dist_init --help."
    )
    with pytest.raises(OptionError, match=r"has no option '--colour'\. It has --\w+"):
        dist_mesh().parse("--colour")


@pytest.mark.parametrize("line", ["--timeout 5 w['a b'][:4]", " --timeout=5  w['a b'][:4] "])
def test_a_time_limit_before_an_expression_is_no_part_of_it(line: str) -> None:
    asked, expression = before_expression(dist_shards(), line)
    assert (limit(asked), expression) == ({"timeout_s": 5.0}, "w['a b'][:4]")


def test_an_expression_alone_is_left_as_it_is() -> None:
    asked, expression = before_expression(dist_layout(), " f(--timeout, 'x') ")
    assert (limit(asked), expression) == ({}, "f(--timeout, 'x')")


def test_a_time_limit_that_is_no_number_is_refused() -> None:
    with pytest.raises(OptionError, match="--timeout"):
        before_expression(dist_shards(), "--timeout soon w")


def test_code_behind_options_is_left_as_it_is() -> None:
    asked, code = dist().parse_before_code(" --on 0,1 --no-wait --grace=2  -x['a b'] - 1 ")
    assert (asked.on, asked.no_wait, asked.grace) == ("0,1", True, 2.0)
    assert code == "-x['a b'] - 1"
    asked, code = dist().parse_before_code("--on 0 x['a  b'].shape --on 3")
    assert (asked.on, code) == ("0", "x['a  b'].shape --on 3")
    assert dist().parse_before_code("-1 + x")[1] == "-1 + x"
    assert dist().parse_before_code("")[1] == ""


def test_unknown_options_before_code_are_refused() -> None:
    with pytest.raises(OptionError, match="Did you mean --timeout"):
        dist().parse_before_code("--timout 3 x")


def test_numbers_of_an_option_can_be_ranges() -> None:
    asked = dist_init().parse("--local-device-ids 0-3;4,5,7 --partition-index 0,0,1,1")
    found = start_arguments(asked)
    assert found["local_device_ids"] == [(0, 1, 2, 3), (4, 5, 7)]
    assert found["partition_index"] == (0, 0, 1, 1)
    with pytest.raises(OptionError, match="--partition-index '0,one': 'one' is no number and no"):
        start_arguments(dist_init().parse("--partition-index 0,one"))


@pytest.mark.parametrize("line", ["", "  ", "--help"])
def test_without_an_expression_the_help_is_shown(line: str) -> None:
    with pytest.raises(HelpShown):
        before_expression(dist_shards(), line)
