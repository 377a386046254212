"""`--check` where an evaluator is among the targets."""

from __future__ import annotations

from tests.integration.notebook import Notebook


def test_an_evaluator_is_not_compared_with_the_workers(fresh: Notebook) -> None:
    fresh.good("%dist_init -n 2 --evaluators 1 --framework tensorflow --platform cpu --check")
    fresh.good("%%dist --on evaluator\nmine = 3")
    text = fresh.good(
        "%%dist --on 0:3\nprint('mine' in globals())\nif 'mine' in globals(): mine"
    ).text
    assert "True" in text
    # The evaluator alone has the name: it runs, and the workers fail.
    assert "AgreementError" not in fresh.bad("%%dist --on 0:3\nmine").traceback
    fresh.good("%%dist --on 0\nours = 3")
    assert "AgreementError: ours differs" in fresh.bad("%%dist --on 0:3\nours").traceback
