"""Ranges of numbers as text."""

from __future__ import annotations

import random

import pytest

from nbdist.notation import MOST_NUMBERS, numbers_in, read_range


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", [3]),
        ("0-3,5", [0, 1, 2, 3, 5]),
        ("0-10:2", [0, 2, 4, 6, 8, 10]),
        ("1-10:4,0", [1, 5, 9, 0]),
        ("7-7", [7]),
        ("2,1,2", [2, 1, 2]),
        (" 1 , 2-3 ", [1, 2, 3]),
        ("08-11", [8, 9, 10, 11]),
    ],
)
def test_both_ends_count_and_the_order_is_kept(text: str, expected: list[int]) -> None:
    assert numbers_in(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8-11", "8 9 10 11"),
        ("08-11", "08 09 10 11"),
        ("98-0101", "98 99 100 101"),
        ("007", "007"),
        ("00-20:10", "00 10 20"),
        ("099-100", "099 100"),
    ],
)
def test_the_first_number_says_how_many_digits_there_are_at_least(text: str, expected: str) -> None:
    assert read_range(text).texts() == expected.split()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a number is missing"),
        ("1,,2", "a number is missing"),
        ("1,", "a number is missing"),
        ("a", "'a' is no number and no range. Expected"),
        ("-1", "'-1' is no number"),
        ("1-", "'1-' is no number"),
        ("1-2-3", "'1-2-3' is no number"),
        ("1:2", "'1:2' is no number"),
        ("1-4:", "'1-4:' is no number"),
        ("1 - 2", "'1 - 2' is no number"),
        ("٣", "is no number"),
        ("9" * 5000, "is no number"),
        ("3-1", "the range 3-1 runs backwards. Write 1-3"),
        ("1-3:0", "the range 1-3:0 has a step of 0"),
        ("1-100001", "these are 100,001 numbers. At most 100,000"),
        ("1-50000,1-50001", "these are 100,001 numbers"),
        ("0-999999999999999999", "these are 1,000,000,000,000,000,000 numbers"),
    ],
)
def test_what_is_no_list_of_numbers_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        numbers_in(text)


def test_as_many_as_are_allowed_are_read() -> None:
    assert len(numbers_in("1-100000")) == len(numbers_in("0-999990:10")) == MOST_NUMBERS


@pytest.mark.parametrize("seed", range(50))
def test_random_ranges_are_what_python_counts(seed: int) -> None:
    chance = random.Random(seed)
    parts, expected = [], []
    for _ in range(chance.randint(1, 8)):
        first, step = chance.randint(0, 300), chance.randint(1, 9)
        last = first + chance.randint(0, 50)
        parts.append(chance.choice([f"{first}-{last}:{step}", f"0{first}-{last}:{step}"]))
        expected += range(first, last + 1, step)
    assert numbers_in(",".join(parts)) == expected
