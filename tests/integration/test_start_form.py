"""The form of a start in a real kernel: asked as the page asks, before and after `%load_ext nbdist`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.notebook import Notebook

ANSWER_SECONDS = 60


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Notebook]:
    """A kernel in which nobody has loaded nbdist."""
    with Notebook(folder=tmp_path) as found:
        yield found


def asked(notebook: Notebook, *pieces: tuple[str, str]) -> dict[str, Any]:
    """Return the answer to a form, asked as `labextension/src/controls/start_check.ts` asks."""
    form = json.dumps(json.dumps(pieces))
    check = f"__import__('nbdist.magics.start_form', fromlist=['check']).check({form})"
    request = notebook.client.execute(
        "", silent=True, store_history=False, user_expressions={"check": check}, allow_stdin=False
    )
    while True:
        reply = notebook.client.get_shell_msg(timeout=ANSWER_SECONDS)
        if reply["parent_header"].get("msg_id") == request:
            found: dict[str, Any] = reply["content"]["user_expressions"]["check"]
            return found


def test_a_kernel_answers_with_the_error_of_the_magic_and_leaves_no_trace(plain: Notebook) -> None:
    error = asked(plain, ("processes", "-n <b>é\u2028"))["data"]["application/json"]["error"]
    assert error["field"] == "processes"
    fine = asked(plain, ("processes", "-n 2"))["data"]["application/json"]
    assert (fine["error"], fine["loaded"]) == (None, False)
    assert plain.good("print(len(In), 'nbdist' in dir())").text == "2 False"
    plain.good("%load_ext nbdist")
    assert asked(plain)["data"]["application/json"]["loaded"] is True
    plain.fails("%dist_init -n <b>é", "OptionError", "<b>é")
