"""What a new process has of the source's things: which it takes, which are named, and why."""

from __future__ import annotations

import pytest

from nbdist.session.values.namespace import DRAWN, CarriedThings, changes_numbers


def test_what_is_not_as_on_the_source_is_named_with_the_reason_that_is_known() -> None:
    one = CarriedThings(there={"same": "a", "other": "b", "failed": "c", "gone": "d"}, others=[])
    one.set({"same": "a", "other": "x", "failed": "x", "more": "y"}, failed={"failed": "no"})
    assert one.unlike == {"other": "", "failed": "no", "gone": "", "more": ""}
    # Asked once more, the reason still holds, also where another has none.
    one.set({"same": "a", "other": "b", "failed": "x", "gone": "d"})
    assert one.unlike == {"failed": "no"}


def test_what_functions_of_the_users_have_set_is_as_it_should_be() -> None:
    one = CarriedThings(there={"a": "1", DRAWN[0]: "2"}, others=[])
    one.set({"a": "x", DRAWN[0]: "2", "new": "3"}, again=("a", "new", DRAWN[0]))
    assert one.unlike == {}
    assert one.each_own == ()


def test_what_differs_between_those_that_live_is_each_own_and_not_unlike() -> None:
    one = CarriedThings(
        there={"same": "a", "differs": "b", "here": "c"},
        others=[{"same": "a", "differs": "x", "there": "d"}],
    )
    assert one.own == one.each_own == ("differs", "here", "there")
    one.set({"same": "z"})
    assert one.unlike == {"same": ""}


def test_streams_come_as_names_do_unless_those_that_live_differ_or_they_were_set_again() -> None:
    there = {DRAWN[1]: "a", "umask": "b"}
    one = CarriedThings(there=there, others=[there])
    assert (one.streams, one.each_own) == ((DRAWN[1],), ())
    one.set(there, again=(DRAWN[1],))
    assert one.streams == ()
    other = CarriedThings(there=there, others=[{**there, DRAWN[1]: "x"}])
    assert (other.streams, other.each_own) == ((), (DRAWN[1],))


@pytest.mark.parametrize(
    ("thing", "changes"),
    [
        ("code of helpers", True),
        ("patched numpy.sinc", True),
        ("pytree __main__.Params", True),
        ("jax_enable_x64", True),
        ("helpers.SCALE", True),
        ("optax.EPS", True),
        ("umask", False),
        ("level of logger a.b", False),
        ("matplotlib's lines.linewidth", False),
    ],
)
def test_a_cell_is_held_back_only_by_what_may_change_a_number(thing: str, changes: bool) -> None:
    assert changes_numbers(thing) == changes
