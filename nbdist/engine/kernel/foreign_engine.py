"""An engine that somebody else has started: its description, and the variables that it gets."""

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
"""Variables in which a launcher gives a process its number, in order of precedence."""


def describe(resident: Resident, framework: Framework, controller: str) -> Described:
    """Return who this engine is, and how far its framework is; change nothing and start no back end.

    Args:
      resident: The state of this engine.
      framework: The framework that the session is to use.
      controller: The address at which this host reaches ipyparallel's controller.
    """
    # Free the port of an earlier kernel that asked and went no further.
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
    """Set variables that nobody has set yet.

    A framework reads its own variables when it is imported. If it is imported already, its configuration is
    changed instead; variables without such a configuration come too late.

    Returns:
      The names of the variables that come too late.
    """
    new = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(new)
    return framework.configure(new)
