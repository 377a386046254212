"""Kernels one after the other, all of one user: they find the same sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.integration.notebook import Notebook


class Kernels:
    """Starts kernels with a state folder of their own.

    Args:
      folder: Holds that, and what they write beside it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "NBDIST_STATE": str(folder / "state"),
            "TMPDIR": str(folder / "tmp"),
            "IPYTHONDIR": str(folder / "ipython"),
        }
        (folder / "tmp").mkdir()
        self._all: list[Notebook] = []

    def start(self) -> Notebook:
        notebook = Notebook(folder=self.folder, environment=self.environment)
        self._all.append(notebook)
        notebook.good("%load_ext nbdist")
        return notebook

    def any(self) -> Notebook:
        """One that lives, if there is one."""
        return next((one for one in self._all if one.manager.is_alive()), None) or self.start()

    def kill(self, notebook: Notebook) -> None:
        """As when the kernel crashes."""
        notebook.process.kill()
        notebook.process.wait(10)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "nbdist.cli", *words],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def sessions(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self.command("ls", "--json").stdout)
        return listed

    @property
    def folders(self) -> list[Path]:
        """What sessions have in the folder for temporary files."""
        return sorted((self.folder / "tmp").glob("nbdist-*"))

    def close(self) -> None:
        for notebook in self._all:
            notebook.client.stop_channels()
            if notebook.manager.is_alive():
                notebook.manager.shutdown_kernel(now=True)
            notebook.manager.cleanup_resources()
        self.command("stop", "--all")


def engines_of(notebook: Notebook) -> list[psutil.Process]:
    """The parents of the session and all below them."""
    hosts = [p for p in notebook.descendants() if "nbdist.agent" in p.cmdline()]
    return [*hosts, *(child for host in hosts for child in host.children(recursive=True))]
