"""The words a person may write after a magic: one parser each, with `--help` and errors that teach."""

from nbdist.options.cells import (
    dist,
    dist_cells,
    dist_layout,
    dist_mesh,
    dist_mode,
    dist_nan,
    dist_pull,
    dist_push,
    dist_recover,
    dist_shards,
    dist_shutdown,
    dist_stack,
    plain,
    timeout_and_expression,
)
from nbdist.options.hosts import (
    dist_doctor,
    doctor_arguments,
    doctor_options,
    host_options,
    job_options,
)
from nbdist.options.parser import HelpShown, Parser
from nbdist.options.start import (
    attach_arguments,
    dist_init,
    environment,
    numbers,
    refuse_beside_restart,
    start_arguments,
)

__all__ = [
    "HelpShown",
    "Parser",
    "attach_arguments",
    "dist",
    "dist_cells",
    "dist_doctor",
    "dist_init",
    "dist_layout",
    "dist_mesh",
    "dist_mode",
    "dist_nan",
    "dist_pull",
    "dist_push",
    "dist_recover",
    "dist_shards",
    "dist_shutdown",
    "dist_stack",
    "doctor_arguments",
    "doctor_options",
    "environment",
    "host_options",
    "job_options",
    "numbers",
    "plain",
    "refuse_beside_restart",
    "start_arguments",
    "timeout_and_expression",
]
