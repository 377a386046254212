"""The interface through which a framework uses the engine it runs on."""

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
    """This process: `process_id` is that of the launch plan, `shell` IPython's. The framework sets `step`."""

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
        """The folder on this host that is private to the session."""

    def publish_step(self, step: CellStep) -> None:
        """Publish whether this process is in step with the others at the end of a cell."""
