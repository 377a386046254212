"""What names hold is looked at in passing: plain data and a few elements of arrays of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nbdist.engine.probe import samples as module
from nbdist.engine.probe.samples import digest_of, sample, samples


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        ("a", b"a"),
        (np.arange(6), np.arange(6.0)),
        (np.arange(6), np.arange(6).reshape(2, 3)),
        (np.zeros(10_000), np.ones(10_000)),
        (np.arange(10_000)[::2], np.arange(5_000)),
        (np.zeros((3, 0)), np.zeros((0, 3))),
        (np.array("a"), np.array("b")),
        ([1, (2, np.zeros(2))], [1, (2, np.ones(2))]),
        ({"a": 1}, {"b": 1}),
        ([], ()),
    ],
)
def test_equal_values_have_one_text_and_others_another(one: object, other: object) -> None:
    again = one.copy() if isinstance(one, np.ndarray) else one
    assert sample(one) == sample(again) != sample(other)
    assert sample(other) is not None


def test_the_first_and_the_last_element_are_looked_at() -> None:
    first, last = np.zeros(1001), np.zeros(1001)
    first[0] = last[-1] = 1
    assert len({sample(np.zeros(1001)), sample(first), sample(last)}) == 3


@pytest.mark.parametrize(
    "value", [[object()], object(), np.array([None]), np.float32(1), "a" * 2000, np.ma.zeros(3)]
)
def test_all_else_is_left_alone(value: object) -> None:
    assert sample(value) is None


def test_names_of_the_user_count_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert samples({"a": 1, "_b": 1, "c": [[]] * 200, "d": 1}) == {
        "a": digest_of(1),
        "d": digest_of(1),
    }
    monkeypatch.setattr(module, "MOST_NAMES", 1)
    assert samples({"a": 1, "d": 1}) == {"a": digest_of(1)}


def test_a_large_array_is_not_copied() -> None:
    # Four terabytes, of one element.
    value = np.broadcast_to(np.float32(3), (1 << 20, 1 << 20))
    assert sample(value) is not None
