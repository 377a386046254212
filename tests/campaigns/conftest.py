"""Hosts for the campaigns, and what sessions leave on them."""

from __future__ import annotations

from tests.hosts.conftest import hosts, left, temporary

__all__ = ["hosts", "left", "temporary"]
