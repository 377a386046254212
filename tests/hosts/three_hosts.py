"""A session on three hosts over SSH, and what its arrays are, bit for bit."""

from __future__ import annotations

import numpy as np

import nbdist
from nbdist import Session
from tests.testbed.hosts import TestBed


def start(hosts: TestBed, **options: float | str) -> Session:
    return nbdist.start(
        hosts="h[1-3]:1",
        devices_per_process=2,
        ssh_config=str(hosts.ssh_config),
        give_up_s=3,
        **options,  # type: ignore[arg-type]
    )


def bits(session: Session, *names: str) -> list[bytes]:
    session.run(f"found = jax.tree.leaves([{', '.join(names)}])")
    found = [np.asarray(leaf).tobytes() for leaf in session.pull("found")]
    session.run("del found")
    return found
