"""The same on three hosts over SSH, which are cut off and powered off as well.

Each host that is lost takes half a minute to be given up: of these there are fewer, `NBDIST_HOST_FAULTS=N` in all.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import nbdist
from tests.campaigns.chaos import (
    COUNTED,
    SEED,
    TRAINING,
    Chaos,
    campaign,
    controller_killed,
    exception,
    interrupted,
    kernel_killed,
    killed_between_cells,
    killed_in_a_cell,
    later,
    service_killed,
    stopped_for_a_while,
)
from tests.hosts.left import Left
from tests.testbed.hosts import TestBed
from tests.waiting import wait_for

FAULTS = int(os.environ.get("NBDIST_HOST_FAULTS", "8"))


@dataclass(kw_only=True)
class HostChaos(Chaos):
    """The same on hosts that can be lost; process 0 is on h1."""

    bed: TestBed


def lost(chaos: HostChaos, process: int, last: int, break_: Callable[[TestBed, int], None]) -> str:
    """Loses a host at any moment of a cell; it is back before the session is recovered."""
    bed, host = chaos.bed, process + 1
    over = threading.Event()
    back = "heal" if break_ is TestBed.cut else "boot"

    def heal() -> None:
        if not over.is_set():
            timer.join()
            # Only a host that was given up is gone.
            wait_for(lambda: chaos.session.out_of_step)
            getattr(bed, back)(host)
            over.set()

    chaos.heal = heal
    timer = later(lambda: break_(bed, host), chaos.random.uniform(0, 0.5))
    said = chaos.until(last)
    timer.join()
    if not over.is_set():  # it came when the cell had ended
        heal()
        chaos.session.recover()
        if chaos.divided:
            chaos.session.run(COUNTED)
        said = said or f"h{host} between two cells"
    chaos.heal = lambda: None
    again = chaos.until(last)
    assert f"h{host}" in (said or again), (said, again)
    return said or again


def powered_off(chaos: HostChaos, process: int, last: int) -> str:
    """The host is powered off, and on again."""
    return lost(chaos, process, last, TestBed.crash)


def cut_too_long(chaos: HostChaos, process: int, last: int) -> str:
    """The host is cut off until it is given up."""
    return lost(chaos, process, last, TestBed.cut)


def cut_for_a_while(chaos: HostChaos, process: int, last: int) -> str:
    """The host is cut off for two seconds."""
    bed, host = chaos.bed, process + 1
    bed.cut(host)
    timer = later(lambda: bed.heal(host), 2.0)
    said = chaos.until(last)
    timer.join()
    assert said == "", said
    return "waited for"


KINDS = [
    powered_off,
    killed_in_a_cell,
    cut_for_a_while,
    service_killed,
    controller_killed,
    kernel_killed,
    exception,
    cut_too_long,
    killed_between_cells,
    interrupted,
    stopped_for_a_while,
]


@pytest.fixture(params=["on all hosts", "divided, with copies"])
def chaos(
    request: pytest.FixtureRequest, hosts: TestBed, left: Left, tmp_path: Path
) -> Iterator[HostChaos]:
    divided = "copies" in request.param

    def send_signal(host: str, pid: int, number: int) -> None:
        hosts.exec(int(host.removeprefix("h")), "kill", f"-{int(number)}", str(pid))

    session = nbdist.start(
        hosts="h[1-3]:1",
        devices_per_process=2,
        ssh_config=str(hosts.ssh_config),
        copies_s=0 if divided else None,
        keep=True,
    )
    chance = random.Random(SEED)
    it = HostChaos(session, divided, chance, tmp_path, send_signal=send_signal, bed=hosts)
    try:
        session.run(f"DIVIDED = {repr('data') if divided else None}\n{TRAINING}")
        yield it
    finally:
        it.session.shutdown()
    left.nothing()


@pytest.mark.timeout(7200)
def test_a_training_goes_on_through_all_of_them_to_the_weights_of_an_undisturbed_one(
    chaos: HostChaos,
) -> None:
    where = "divided over three hosts, with copies" if chaos.divided else "on all of three hosts"
    campaign(chaos, KINDS, f"Weights {where}", faults=FAULTS)
