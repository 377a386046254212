"""Hosts for the campaigns, and what sessions leave on them."""

from __future__ import annotations

from tests.hosts.conftest import gone, hosts, left, mpi_hosts, slurm, temporary

__all__ = ["gone", "hosts", "left", "mpi_hosts", "slurm", "temporary"]
