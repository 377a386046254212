"""What an answer raises that ipyparallel says has failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ipyparallel.error import RemoteError

from nbdist.errors import GoneError, SessionError
from nbdist.launch.start.request import Request


def failed(name: str) -> Request:
    def get(timeout_s: float | None) -> Any:
        raise RemoteError(name, "it says why", "", {})

    return Request(SimpleNamespace(get=get), "process 1 (host h1)")


def test_a_process_that_has_ended_is_told_from_one_that_failed() -> None:
    with pytest.raises(GoneError, match=r"process 1 \(host h1\): EngineError: it says why"):
        failed("EngineError").get()
    with pytest.raises(SessionError) as raised:
        failed("TypeError").get()
    assert type(raised.value) is SessionError
