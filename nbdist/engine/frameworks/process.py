"""What a framework may use of the engine it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from nbdist.contract.iopub import CellStep
from nbdist.engine.cell.descriptors import Descriptors
from nbdist.engine.cell.interrupts import InterruptHandler
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.cell.stop import AgreedStop
from nbdist.engine.frameworks.stepping import Steps


class Process(Protocol):
    """This process: `process_id` is that of the launch plan, `shell` IPython's; `step` is set by the framework."""

    shell: Any
    host: str
    process_id: int
    cell: CurrentCell
    descriptors: Descriptors
    interrupts: InterruptHandler
    stop: AgreedStop
    step: Steps | None

    @property
    def folder(self) -> Path:
        """Private to the session on this host."""

    def publish_step(self, step: CellStep) -> None:
        """Says how a cell that has ended stands to the others."""
