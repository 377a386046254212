"""What one process finds out all know, and nobody waits longer than was allowed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nbdist.engine.saving.exchange import Exchange
from nbdist.errors import ArrayError, SessionError


class Store:
    """The store of a coordinator."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def key_value_set(self, key: str, value: str) -> None:
        self.texts[key] = value

    def key_value_dir_get(self, folder: str) -> list[tuple[str, str]]:
        return [(key, text) for key, text in self.texts.items() if key.startswith(folder)]


def together(find: Any, *, count: int = 3) -> list[Any]:
    """What each of some processes gets, or the error it raises."""
    store, got = Store(), [None] * count

    def one(process_id: int) -> None:
        exchange = Exchange(store, process_id, count, "token", 60.0)
        try:
            got[process_id] = exchange.all("step", lambda: find(process_id))
        except Exception as error:  # noqa: BLE001 - compared by the test
            got[process_id] = error

    threads = [threading.Thread(target=one, args=(p,)) for p in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def test_all_get_what_each_has_found_in_order() -> None:
    assert together(lambda p: p * 10) == [[0, 10, 20]] * 3


def test_what_one_raises_all_raise() -> None:
    def find(process_id: int) -> int:
        if process_id == 1:
            raise ArrayError("no name 'x'")
        return process_id

    errors = together(find)
    assert [(type(error), str(error)) for error in errors] == [(ArrayError, "no name 'x'")] * 3


def test_of_what_nobody_has_foreseen_the_process_is_named() -> None:
    def find(process_id: int) -> float:
        return 1 / (process_id - 2)

    for error in together(find):
        assert isinstance(error, SessionError)
        assert str(error).startswith("process 2: ZeroDivisionError")


def test_one_that_does_not_come_is_named_when_the_time_is_over() -> None:
    exchange = Exchange(Store(), 0, 2, "token", 0.0)
    with pytest.raises(SessionError, match="process 1 did not come to the step 'step'"):
        exchange.all("step", lambda: None)


def test_one_process_needs_no_store_and_several_do() -> None:
    assert Exchange(None, 0, 1, "token", 1.0).all("step", lambda: 5) == [5]
    with pytest.raises(SessionError, match="coordinator cannot be reached"):
        Exchange(None, 0, 2, "token", 1.0)
