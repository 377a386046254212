"""What a guard does with an exception: logged, reported once, and the next message is read."""

from __future__ import annotations

import logging

import pytest

from nbdist.message_guard import MOST_KINDS, SHOWN_CHARACTERS, MessageGuard

logger = logging.getLogger("nbdist.some_module")


def test_a_failure_is_logged_with_its_traceback_and_reported_in_one_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[str] = []
    guard = MessageGuard("A message of host h2", logger, said.append)
    with guard:
        raise KeyError("process_id")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("nbdist.some_module", "ERROR")
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
    assert said == [
        "A message of host h2 could not be handled and was skipped (KeyError: 'process_id'); later ones are "
        "still read. The log of nbdist.some_module has the traceback."
    ]


def test_the_same_failure_again_is_logged_quietly_and_another_one_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    guard = MessageGuard("A message", logger, said.append)
    for number in range(3):
        with guard:
            raise ValueError(number)
    with guard:
        raise ValueError("elsewhere")
    assert [record.levelname for record in caplog.records] == ["ERROR", "DEBUG", "DEBUG", "ERROR"]
    assert len(said) == 2
    assert guard.failures == 4


def test_failures_without_end_are_not_reported_without_end() -> None:
    said: list[str] = []
    guard = MessageGuard("A message", logger, said.append)
    for number in range(3 * MOST_KINDS):
        with guard:
            raise type(f"Error{number}", (Exception,), {})("x" * 10_000)
    assert len(said) == MOST_KINDS
    assert max(map(len, said)) < SHOWN_CHARACTERS + 200


def test_a_report_that_fails_goes_no_further() -> None:
    def report(text: str) -> None:
        raise OSError("nobody is there")

    with MessageGuard("A message", logger, report):
        raise ValueError


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_passes(kind: type[BaseException]) -> None:
    with pytest.raises(kind), MessageGuard("A message", logger):
        raise kind
