"""The user's own modules, and which version of each a process runs."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import types
from pathlib import Path
from typing import Any

from nbdist.engine.probe.code import NOTEBOOK, code_digest


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages."""
    import site
    import sysconfig

    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {
        *(sysconfig.get_path(name) for name in kinds),
        *site.getsitepackages(),
        site.getusersitepackages(),
        # The folder of the interpreter from which a virtual environment was made.
        str(Path(os.__file__).parent),
    }
    return tuple(os.path.realpath(folder) + os.sep for folder in found)


class UsersModules:
    """Finder of the user's modules; tests each other module of `sys.modules` once."""

    def __init__(self) -> None:
        self._others: set[str] = {"__main__", "__mp_main__"}

    def find(self) -> dict[str, types.ModuleType]:
        """Return imported modules with Python source outside the folders of installed packages, by name."""
        found = {}
        for name in sorted(sys.modules.keys() - self._others):
            module = sys.modules.get(name)
            if is_users(name, module):
                assert isinstance(module, types.ModuleType)
                found[name] = module
            else:
                self._others.add(name)
        return found

    def versions(self) -> dict[str, str]:
        """Return a digest of each module's functions and classes, equal where their code is equal."""
        modules = self.find()
        return {name: version(one, {NOTEBOOK, *modules}) for name, one in modules.items()}


def is_users(name: str, module: Any) -> bool:
    """Return whether a module comes from a Python file that was not installed."""
    file = getattr(module, "__dict__", {}).get("__file__")
    return (
        isinstance(module, types.ModuleType)
        and isinstance(file, str)
        and file.endswith(".py")
        and name.partition(".")[0] != "nbdist"
        and not _folder_of(file).startswith(_libraries())
    )


def _folder_of(file: str) -> str:
    """Return where a file really is: a tool may link one file of the user's among the libraries."""
    real = os.path.realpath(file) if Path(file).is_symlink() else file
    return _folder(real.rpartition(os.sep)[0])


@functools.cache
def _folder(path: str) -> str:
    """Return the real path of a folder; hundreds of modules share one."""
    return os.path.realpath(path) + os.sep


def version(module: types.ModuleType, modules: Any) -> str:
    """Return a digest of a module's functions and classes as they are now; edits of its file do not count."""
    parts = []
    for name, value in sorted(vars(module).items()):
        digest = None if name.startswith("__") else code_digest(value, modules)
        if digest is not None:
            parts.append((name, digest))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
