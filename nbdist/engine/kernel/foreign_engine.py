"""What an engine says of itself that somebody else has started: asked without starting or changing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nbdist.contract.calls.call import PROTOCOL
from nbdist.contract.calls.engine import Described
from nbdist.engine.frameworks.framework import Framework
from nbdist.machine.ports import own_address
from nbdist.version import __version__

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

NUMBERS = ("NBDIST_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables in which a launcher gives a process its number, in the order in which they count."""


def describe(resident: Resident, framework: Framework, controller: str) -> Described:
    """Who this engine is, and how far its framework is.

    Args:
      resident: This engine.
      framework: What the session is to compute with.
      controller: The address at which this host reaches ipyparallel's controller.
    """
    # Of a kernel that has asked before, and has gone no further.
    resident.reserved.close()
    (port,) = resident.reserved.reserve(1)
    return Described(
        protocol=PROTOCOL,
        nbdist=__version__,
        python=".".join(map(str, sys.version_info[:3])),
        host=resident.host,
        pid=resident.pid,
        ident=resident.kernel.ident,
        settled=resident.process_id if resident.process_id >= 0 else None,
        numbers={n: int(os.environ[n]) for n in NUMBERS if os.environ.get(n, "").isdigit()},
        joined=framework.joined(),
        up=framework.is_up(),
        devices=framework.devices(),
        version=framework.version(),
        address=own_address(controller),
        port=port,
    )


def prepare(environment: Mapping[str, str], framework: Framework) -> list[str]:
    """Puts variables in place that nobody has set yet.

    A framework reads its own when it is imported. Where that is past, its configuration is changed in their stead;
    the others come too late.

    Returns:
      The names of those that came too late.
    """
    new = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(new)
    return framework.configure(new)
