"""An interrupt at an unlucky moment: as a reply is sent, or before the cell has begun."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from pathlib import Path

import pytest

from nbdist import Session
from nbdist.contract.asides import Free
from nbdist.errors import NbdistError, ProcessError
from nbdist.session.cells.cellrun import CellHandle
from tests.waiting import wait_for

LOOP = """
import time
print('in it', flush=True)
for i in range(100_000):
    time.sleep(0.002)
"""


def outcomes(handle: CellHandle) -> set[str]:
    with contextlib.suppress(ProcessError):
        handle.wait(200)  # a busy machine takes several times as long
    return {process.outcome for process in handle.outcomes.values()}


NOTHING = "no cell is running"


HAIL = """
import os, signal, threading, time

def hail():
    global over
    for _ in range(300):
        time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    over = True

over = False
try:
    print('in it', flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    threading.Thread(target=hail).start()
    raise
"""


def is_over(session: Session) -> bool:
    # What asks is interrupted, too.
    with contextlib.suppress(NbdistError):
        return bool(session.pull("over", on="0"))
    return False


@pytest.mark.parametrize("nth", range(3))
def test_more_of_them_lose_no_reply_to_the_first(session: Session, nth: int) -> None:
    """They come at every moment while the traceback is made and the reply is sent."""
    handle = session.run(HAIL, on="0", wait=False)
    wait_for(lambda: any("in it" in str(block) for block in handle.blocks()))
    session.interrupt()
    assert outcomes(handle) == {"interrupted"}
    assert session.out_of_step is False
    wait_for(lambda: is_over(session))
    session.run(f"kept = {nth}", on="0")
    assert session.pull("kept", on="0") == nth


def test_a_cell_that_another_thread_waits_for_is_interrupted_before_any_report_of_it(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session._life.engines.reports, "in_cell", lambda process_id: False)
    begun = tmp_path / "begun"
    said: list[str] = []

    def interrupt() -> None:
        wait_for(begun.exists)
        said.append(session.interrupt())

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(ProcessError, match=r"KeyboardInterrupt|interrupted"):
        session.run(
            f"import time; open({str(begun)!r}, 'w').close(); time.sleep(600)",
            on="0",
            timeout_s=60,
        )
    thread.join()
    assert re.fullmatch(r"interrupted: cell \d+ \(process 0\)", "".join(said)), said
    assert session.interrupt() == NOTHING


def test_no_signal_is_sent_where_no_cell_runs(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might come so late that it ends the next one."""
    session.run("'idle'")
    engines = session._life.engines
    monkeypatch.setattr(engines, "interrupt", lambda process_ids: pytest.fail(f"{process_ids}"))
    assert session.interrupt() == NOTHING


PRINTS = """
import random, signal

signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGINT))
caught = 0
while caught < 1000:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 1e-3))
        while True:
            print(end='.', flush=True)
    except KeyboardInterrupt:
        caught += 1
print('after it')
"""


def test_none_that_comes_while_output_is_sent_ends_all_output(session: Session) -> None:
    handle = session.run(PRINTS, wait=False)
    assert outcomes(handle) == {"finished"}
    assert "after it" in str(handle.blocks())


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.002, 0.005, 0.01, 0.02])
def test_one_finds_a_cell_that_was_just_sent(session: Session, after_s: float) -> None:
    handle = session.run(LOOP, wait=False)
    time.sleep(after_s)
    session.interrupt()
    # Where it had not begun it is taken back.
    assert outcomes(handle) in ({"interrupted"}, {"not run"}, {"interrupted", "not run"})
    assert session.out_of_step is False


@pytest.mark.parametrize("code", ["import time; time.sleep(3)", "for i in range(30_000_000): pass"])
def test_one_that_a_signal_reaches_is_not_cut_however_late_it_is(
    session: Session, code: str
) -> None:
    """On a busy machine it may be asked to free itself before its interrupt has come: a cut costs a repair."""
    handle = session.run(f"print('in it', flush=True)\n{code}", wait=False)
    wait_for(lambda: str(handle.blocks()).count("in it") > 0)
    session._life.engines.cluster.agents.ask(Free(), sorted(session.hosts))
    assert outcomes(handle) == {"finished"}
    assert session.recover().code == "in step"
