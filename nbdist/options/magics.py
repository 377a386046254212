"""Which parser reads the line of which magic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nbdist.options import cells, hosts, rehearsal, start
from nbdist.options.parser import Parser

MAGICS: Mapping[str, Callable[[], Parser]] = {
    "dist": cells.dist,
    "distributed": cells.dist,
    "rank": cells.rank,
    "local": cells.local,
    "sync": cells.sync,
    "dist_init": start.dist_init,
    "dist_doctor": hosts.dist_doctor,
    "dist_plan": rehearsal.dist_plan,
    "dist_rehearse": rehearsal.dist_rehearse,
    **{
        make.__name__: make
        for make in (
            *(cells.dist_cells, cells.dist_debug, cells.dist_explain),
            *(cells.dist_interrupt, cells.dist_layout),
            *(cells.dist_mesh, cells.dist_mode, cells.dist_nan, cells.dist_pull, cells.dist_push),
            *(cells.dist_recover, cells.dist_restore, cells.dist_save),
            *(cells.dist_shards, cells.dist_shutdown, cells.dist_stack),
            *(cells.dist_status, cells.dist_sync),
        )
    },
}
"""By the name of the magic, without its signs."""

ON_THE_PROCESSES = frozenset(
    {"dist", "dist_explain", "dist_layout", "dist_mesh", "dist_nan", "dist_pull", "dist_shards"}
)
"""Those behind which stand names, or an expression, that live on the processes."""
