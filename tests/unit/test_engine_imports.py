"""`nbdist.engine` imports with nothing but the standard library."""

import subprocess
import sys
from pathlib import Path

import nbdist.engine

FOLDER = Path(nbdist.engine.__file__).parent

PROOF = """
import importlib, sys

class OnlyStandardLibrary:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in ("nbdist", "fed"):
            raise ImportError(f"{name} is not in the standard library")

# Whatever the environment has loaded at start (import hooks of editable installs) is found by path.
sys.meta_path.insert(0, OnlyStandardLibrary())
sys.path[:0] = sys.argv[1].split(":")
for name in sys.argv[2:]:
    importlib.import_module(name)
print(len(sys.argv[2:]), "imported")
"""


def modules_of_engine() -> list[str]:
    """Every module under `nbdist.engine`, whatever its depth."""
    parts = [p.relative_to(FOLDER.parents[1]).with_suffix("").parts for p in FOLDER.rglob("*.py")]
    return sorted(".".join(p).removesuffix(".__init__") for p in parts)


def prove(modules: list[str], *folders: Path) -> subprocess.CompletedProcess[str]:
    path = ":".join(str(folder) for folder in (FOLDER.parents[1], *folders))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROOF, path, *modules],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_engine_imports_nothing_outside_the_standard_library():
    modules = modules_of_engine()
    assert {"nbdist.engine.probe", "nbdist.engine.jax.observe"} <= set(modules)
    done = prove(modules)
    assert done.stdout.strip() == f"{len(modules)} imported", done.stderr


def test_the_proof_fails_for_a_module_that_imports_numpy(tmp_path):
    (tmp_path / "fed.py").write_text("def later():\n    import numpy\n")
    assert prove(["fed"], tmp_path).returncode == 0
    (tmp_path / "fed.py").write_text("import json\nimport numpy\n")
    done = prove(["fed"], tmp_path)
    assert done.returncode != 0
    assert "numpy is not in the standard library" in done.stderr


def test_the_proof_fails_for_an_import_that_is_allowed_to_fail_as_well(tmp_path):
    # Such an import would succeed on an engine that has the package.
    (tmp_path / "fed.py").write_text(
        "try:\n    import jax\nexcept ModuleNotFoundError:\n    jax = None\n"
    )
    assert prove(["fed"], tmp_path).returncode != 0
