"""One connection to a host, of which a program of this machine says what comes through it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from nbdist.contract.checkup import Checkup, Connection
from nbdist.errors import WireError
from nbdist.launch.doctor import examine as visit_module
from nbdist.launch.doctor.examine import Visit
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.machine import checkup

H1 = AskedHost(name="h1")


def visited(monkeypatch: pytest.MonkeyPatch, *answers: str) -> Visit:
    """A visit to a host that says this, line by line, whatever it is asked."""
    text = "".join(f"{one}\n" for one in answers)
    program = f"import sys; sys.stdout.write({text!r})"
    command = [sys.executable, "-c", program]
    monkeypatch.setattr(visit_module, "ssh_command", lambda *_: command)
    found = Visit(H1, SshOptions(python="python3"), {})
    found.look()
    return found


def line(answer: Any) -> str:
    return json.dumps({"checkup": answer})


def test_facts_clock_and_connections_are_read_behind_what_a_shell_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = checkup.checkup({})
    connected = [{"ms": 1.5}, {"error": "timed out"}]
    said = ("Welcome!", line(facts), line({"time": 1000.0}), line({"connected": connected}))
    visit = visited(monkeypatch, *said)
    assert isinstance(visit.facts, Checkup) and visit.facts.host == facts["host"]
    assert visit.trouble is None
    assert visit.connect([]) == (Connection(ms=1.5), Connection(error="timed out"))
    assert visit.clock is not None
    visit.end()


@pytest.mark.parametrize("answer", ['{"checkup": {"host": 5}}', '{"checkup": {"host"'])
def test_facts_of_another_shape_are_one_finding_about_that_host(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = visited(monkeypatch, answer)
    assert visit.facts is None
    assert visit.trouble is not None
    assert (visit.trouble.severity, visit.trouble.host) == ("error", "h1")
    assert "facts cannot be read" in visit.trouble.what
    assert visit.connect([]) == ()
    visit.end()


def test_another_answer_to_what_it_is_asked_next_names_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visit = visited(monkeypatch, line(checkup.checkup({})), line({"time": "noon"}))
    with pytest.raises(
        WireError, match=r"^What host h1 has reported: Reading.time: expected float"
    ):
        visit.connect([])
    visit.end()
