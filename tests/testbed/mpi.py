"""What Open MPI's mpirun needs to start on the hosts of a test bed."""

from __future__ import annotations

import os

from tests.testbed.hosts import TestBed


def mpi_parameters(bed: TestBed) -> dict[str, str]:
    """Open MPI's parameters: the bed's ssh, and no network but the bed's, as hosts see no other."""
    network = f"{bed.head_address}/24"
    return {
        "plm_rsh_agent": f"ssh -F {bed.ssh_config}",
        "oob_tcp_if_include": network,
        "btl_tcp_if_include": network,
    }


def mpi_arguments(bed: TestBed) -> list[str]:
    """The same for mpirun's command line: `mpirun *mpi_arguments(bed) --host h1,h2 hostname`."""
    given = [("--mca", name, value) for name, value in mpi_parameters(bed).items()]
    return ["--allow-run-as-root", *(word for words in given for word in words)]


def mpi_environment(bed: TestBed) -> dict[str, str]:
    """The same as variables, for mpirun started by something else; with the tests' own environment."""
    parameters = {f"OMPI_MCA_{name}": value for name, value in mpi_parameters(bed).items()}
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **parameters, **allowed}
