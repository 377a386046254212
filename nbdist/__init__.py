"""nbdist: one notebook, every process of a multi-host job, and a live picture of its devices."""

from __future__ import annotations

__version__ = "0.1.0"
