"""Pods that are not there: plans of arrays on them, programs compiled for them, and cells and scripts on them.

This is the room's one door: all others import from here alone, and nothing is imported before one of these names
is asked for:

- `make_plan` returns an `ArrayPlan`: what each device of a pod would hold of a value, from its shapes and specs.
  `read_where` reads the pod that it is for as a person writes it. No framework is imported, nothing compiled.
- `pod_here` returns a `Pod`, for which this process compiles functions: `Program`s with what each device needs and
  what it sends. Nothing runs, and no device is taken.
- `Rehearsing` runs the cells of a notebook in processes of their own, whose devices are those of a pod;
  `rehearse_script` does so with a script. With several meshes the answer is a `Comparison`.
- `install` puts libtpu, which has the compiler, into a folder of its own. No TPU is needed.

In come topologies and meshes as a person writes them (`v5e:16x16`, `data=16,model=16`), and a value with its
specs, a function, a cell or a script. Out go plans and programs, both as plain data, text and picture. The room
knows nothing of a session, and a session nothing of it.

Read first `plan.py` for plans, `pod.py` for programs, and `runs.py` for scripts and cells (`cells.py`), which run
in a process of their own, `rehearsal.py`. Only there, and for `pod_here`, is JAX imported:
`rehearsal.py` puts the pod in the place of JAX's devices, `pod.py` decides what happens to each operation,
`values.py` has the arrays that result, and `programs.py` compiles, and keeps what was compiled before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdist.rehearsal.array_plan import ArrayPlan
    from nbdist.rehearsal.cells import Rehearsing
    from nbdist.rehearsal.comparison import Comparison
    from nbdist.rehearsal.libtpu import install
    from nbdist.rehearsal.plan import make_plan, read_where
    from nbdist.rehearsal.pod import Pod, pod_here
    from nbdist.rehearsal.runs import rehearse_script
    from nbdist.rehearsal.topology import Topology

__all__ = [
    "ArrayPlan",
    "Comparison",
    "Pod",
    "Rehearsing",
    "Topology",
    "install",
    "make_plan",
    "pod_here",
    "read_where",
    "rehearse_script",
]

_MODULES = {
    "cells": ("Rehearsing",),
    "comparison": ("Comparison",),
    "libtpu": ("install",),
    "array_plan": ("ArrayPlan",),
    "plan": ("make_plan", "read_where"),
    "pod": ("Pod", "pod_here"),
    "runs": ("rehearse_script",),
    "topology": ("Topology",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
