"""`nbdist.start`: from what a person asked for to a session."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from nbdist.errors import OptionError
from nbdist.launch.choose import make_plan, proxy_warning
from nbdist.launch.spawn import spawn
from nbdist.launch.tell import Tell, silent

if TYPE_CHECKING:
    from nbdist.session import Session
    from nbdist.view.feed import Feed


def start_session(
    processes: int | None = None,
    *,
    grace_s: float = 3.0,
    tell: Tell | None = None,
    feed: Feed | None = None,
    **options: Any,
) -> Session:
    """Starts processes on this machine and joins them to one cluster.

    Args:
      processes: How many; default 2 on CPU, one a GPU.
      grace_s: Seconds others may stay in a cell in which one process has failed.
      tell: Called with (stage, done, total) while it starts.
      feed: Gets the snapshots; default: one of the session's own.
      **options: See `nbdist.launch.choose.make_plan`.

    Raises:
      OptionError: Something that cannot be; nothing was started.
      LaunchError: It could not be started; nothing is left.
    """
    if grace_s < 0:
        raise OptionError(f"--grace {grace_s:g}: must be 0 or more seconds.")
    plan = make_plan(processes=processes, **options)
    proxies = proxy_warning({**os.environ, **plan.environment}, plan.processes[0].host)
    if proxies is not None:
        warnings.warn(proxies, stacklevel=2)
    spawned = spawn(plan)
    try:
        # Imported while the processes import: both take a while.
        from nbdist.session import Session

        return Session(spawned, grace_s=grace_s, tell=tell or silent, feed=feed)
    except BaseException:
        spawned.stop()
        raise
