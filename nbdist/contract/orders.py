"""What the kernel sends to the agent of a host, as types and numbers that both know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CONTROLLER = -1
"""Stands for the controller where a process id is expected."""

COORDINATOR = -2
"""Stands for the first coordination service; later ones have lower numbers."""

SERVES_SECONDS = 20.0
"""How long a coordination service may take until it listens; forked, it takes some milliseconds."""


@dataclass(frozen=True)
class Assignment:
    """What this host is for.

    `folder` is private to the session and holds connection files and logs; None where the host is another
    machine, which makes one of its own. `preload` names the modules every engine will need;
    `controller_arguments` is None where the controller runs elsewhere, and `controller_address` says where,
    a loopback address where ssh forwards it.
    `environment` and the working folder `cwd` come before anything is imported. `ports` is how many free ones
    are wanted. `silence_s` is how long the kernel may be silent before all is stopped, None: for ever.
    `checks` are the arguments of `nbdist.machine.checkup.checkup`, None for no checks; with them it also listens
    for others, until `{"listen": 0}`, so that they can try to reach this host. `kept` says that it goes on
    without a kernel, from `{"keep": 1}` on: before, nobody could find it again; until then it ends with the
    process `kernel`, its parent, where that is known. `paths` are folders for the
    user's modules, relative ones in the copy of the user's files, where `cwd_copy` is the working folder if there
    is no `cwd`.
    """

    cluster_id: str
    preload: list[str]
    fork: bool
    folder: str | None = None
    controller_arguments: list[str] | None = None
    controller_address: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    ports: int = 0
    silence_s: float | None = None
    checks: dict[str, Any] | None = None
    kept: bool = False
    kernel: int | None = None
    paths: list[str] = field(default_factory=list)
    cwd_copy: str | None = None
