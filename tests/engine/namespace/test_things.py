"""Texts of things: equal where two processes have the same, and whose a thing is."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

from nbdist.engine.namespace.things import Carried, Fixed, Mine, SingleThing

CELL = """
import functools
def double(x): return 2 * x
class Model:
    def rate(self): return {rate}
    def __call__(self): return 1
bound, part, model = Model().rate, functools.partial(double, 1), Model()
"""


def cell(rate: int = 1) -> dict[str, Any]:
    """Names of a cell, made anew, as on another process."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL.format(rate=rate), names)
    return names


MINE = Mine(["helpers"])


@pytest.mark.parametrize(
    "pair",
    [
        ("1", "True"),
        ("1", "1.0"),
        ("1.5", "'1.5'"),
        ("[1]", "(1,)"),
        ("[1, [2]]", "[[1], 2]"),
        ("{'a': 1}", "{'a': 2}"),
        ("10**5000", "10**5000 + 1"),
        ("re.compile('a')", "re.compile('a', re.I)"),
        ("ring(1)", "ring(2)"),
    ],
)
def test_equal_values_have_one_text_and_others_another(pair: tuple[str, str]) -> None:
    def ring(first: int) -> list[Any]:
        found: list[Any] = [first]
        found.append({"self": found})
        return found

    names = {"re": re, "ring": ring}
    one, other = (eval(text, names) for text in pair)
    assert MINE.text(one) == MINE.text(eval(pair[0], names)) != MINE.text(other)


def test_the_order_of_a_set_and_of_keys_does_not_count() -> None:
    one, other = {8, 0}, {0, 8}
    assert [*one] != [*other]  # they lie in the order in which they came
    assert MINE.text({"a": 1, "b": one}) == MINE.text({"b": other, "a": 1})
    assert MINE.text({"ab", "c"}) != MINE.text({"a", "bc"})


def test_one_list_in_many_is_read_once() -> None:
    def nested(inner: Any) -> Any:
        for _ in range(100):
            inner = [inner, (inner, inner)]
        return inner

    assert MINE.text(nested([1])) == MINE.text(nested([1])) != MINE.text(nested([2]))
    # Whether two are one does not count: of a copy nobody knows.
    assert MINE.text([one := [1], one]) == MINE.text([[1], [1]])
    assert len(MINE.text(nested([1]))) < 5000
    assert MINE.text("a" * 10_000) == MINE.text("a" * 10_000) != MINE.text("a" * 10_001)


@pytest.mark.parametrize("name", ["double", "Model", "bound", "part", "model"])
def test_what_cells_define_is_the_users_and_its_text_has_no_address(name: str) -> None:
    one, again = cell()[name], cell()[name]
    assert one in MINE
    assert MINE.text(one) == MINE.text(again)
    assert (MINE.text(one) != MINE.text(cell(rate=2)[name])) == (
        name in ("Model", "bound", "model")
    )


@pytest.mark.parametrize("value", [re.compile, re.Pattern, 5, functools.partial(print), [1], None])
def test_what_libraries_define_is_not(value: Any) -> None:
    assert value not in MINE


def test_a_wrapper_of_the_users_is_theirs_and_no_object_is_asked_by_itself() -> None:
    """A magic that IPython has not loaded yet imports its module when it is asked for an attribute."""

    class Unloaded:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise AttributeError(name)

    asked: list[str] = []
    Unloaded.__module__ = "IPython.core.magic"
    assert Unloaded() not in MINE
    assert asked == []
    assert functools.lru_cache(cell()["double"]) in MINE


def test_the_text_of_what_is_sent_and_of_what_cannot_be_is_given() -> None:
    assert MINE.text(Fixed("a")) == MINE.text(Carried("a", 5)) == "a"


def test_a_setting_that_a_process_does_not_have_is_none() -> None:
    held: dict[str, int] = {}
    one = SingleThing("rate", lambda: held["rate"], lambda value: held.update(rate=value))
    assert one.read() == {}
    one.write("rate", 3)
    assert one.read() == {"rate": 3}
