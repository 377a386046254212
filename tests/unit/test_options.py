"""How the words behind a magic are read."""

from __future__ import annotations

import pytest

from nbdist.errors import OptionError
from nbdist.options import dist_init, dist_mesh, start_arguments


def test_a_comment_behind_the_options_is_none_of_them() -> None:
    asked = dist_init().parse("--hosts h1:2,h2:2   # names your ssh knows")
    assert start_arguments(asked)["hosts"] == "h1:2,h2:2"
    assert start_arguments(dist_init().parse("--env X=a#b"))["environment"] == {"X": "a#b"}


def test_hosts_with_blanks_between_them_are_told_how_lists_are_written() -> None:
    with pytest.raises(OptionError, match=r"takes no 'h2'\. Lists have commas and no blanks"):
        dist_init().parse("--hosts h1, h2")


def test_an_unknown_option_is_told_with_the_nearest_and_few_of_many() -> None:
    with pytest.raises(OptionError) as raised:
        dist_init().parse("--host h1")
    assert str(raised.value) == (
        "%dist_init has no option '--host'. Did you mean --hosts? See %dist_init --help."
    )
    with pytest.raises(OptionError, match=r"has no option '--colour'\. It has --\w+"):
        dist_mesh().parse("--colour")
