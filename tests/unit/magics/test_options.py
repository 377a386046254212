"""How the words behind a magic are read."""

from __future__ import annotations

import pytest

from nbdist.errors import OptionError
from nbdist.magics.options import parser, start_arguments, timeout
from nbdist.magics.parser import HelpShown


def test_a_comment_behind_the_options_is_none_of_them() -> None:
    asked = parser("dist_init").parse("--hosts h1:2,h2:2   # names your ssh knows")
    assert start_arguments(asked)["hosts"] == "h1:2,h2:2"
    assert start_arguments(parser("dist_init").parse("--env X=a#b"))["environment"] == {"X": "a#b"}


@pytest.mark.parametrize(
    ("name", "line", "text"),
    [
        (
            "dist_init",
            "--host h1",
            "%dist_init has no option '--host'. Did you mean --hosts? See %dist_init --help.",
        ),
        ("dist_sync", "--colour", "%dist_sync has no option '--colour'. It has --help."),
        (
            "dist_init",
            "--hosts h1, h2",
            "%dist_init takes no 'h2'. Lists have commas and no blanks, such as --hosts h1,h2; "
            "see %dist_init --help.",
        ),
        (
            "dist_shards",
            "--timeout soon w",
            "%dist_shards: argument --timeout: invalid float value: 'soon'. See %dist_shards --help.",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_what_is_near(name: str, line: str, text: str) -> None:
    with pytest.raises(OptionError) as raised:
        parser(name).parse(line)
    assert str(raised.value) == text


@pytest.mark.parametrize("line", ["--timeout 5 w['a b'][:4]", " --timeout=5  w['a b'][:4] "])
def test_a_time_limit_before_an_expression_is_no_part_of_it(line: str) -> None:
    asked, expression = parser("dist_shards").parse_before_expression(line)
    assert (timeout(asked), expression) == ({"timeout_s": 5.0}, "w['a b'][:4]")


def test_an_expression_alone_is_left_as_it_is() -> None:
    asked, expression = parser("dist_layout").parse_before_expression(" f(--timeout, 'x') ")
    assert (timeout(asked), expression) == ({}, "f(--timeout, 'x')")


def test_an_option_behind_an_expression_is_refused() -> None:
    with pytest.raises(OptionError, match=r"such as %dist_shards --timeout S w\."):
        parser("dist_shards").parse_before_expression("w --timeout 3")


def test_code_behind_options_is_left_as_it_is() -> None:
    asked, code = parser("dist").parse_before_code(" --on 0,1 --no-wait --grace=2  -x['a b'] - 1 ")
    assert (asked.on, asked.no_wait, asked.grace) == ("0,1", True, 2.0)
    assert code == "-x['a b'] - 1"
    asked, code = parser("dist").parse_before_code("--on 0 x['a  b'].shape --on 3")
    assert (asked.on, code) == ("0", "x['a  b'].shape --on 3")
    assert parser("dist").parse_before_code("-1 + x")[1] == "-1 + x"
    assert parser("dist").parse_before_code("")[1] == ""


def test_numbers_of_an_option_can_be_ranges() -> None:
    asked = parser("dist_init").parse("--local-device-ids 0-3;4,5,7 --partition-index 0,0,1,1")
    found = start_arguments(asked)
    assert found["local_device_ids"] == [(0, 1, 2, 3), (4, 5, 7)]
    assert found["partition_index"] == (0, 0, 1, 1)
    with pytest.raises(OptionError, match="--partition-index '0,one': 'one'"):
        start_arguments(parser("dist_init").parse("--partition-index 0,one"))


@pytest.mark.parametrize("line", ["", "  ", "--help"])
def test_without_an_expression_the_help_is_shown(line: str) -> None:
    with pytest.raises(HelpShown):
        parser("dist_shards").parse_before_expression(line)
