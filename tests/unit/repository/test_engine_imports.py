"""Code that runs on hosts imports nothing but the standard library and msgspec, of which the contract is made."""

import subprocess
import sys
from pathlib import Path

import nbdist

PACKAGE = Path(nbdist.__file__).parent
ON_HOSTS = ("agent", "engine", "machine", "contract", "program")

PROOF = """
import importlib, sys

class OnlyNamed:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in ("nbdist", "fed", "msgspec"):
            raise ImportError(f"{name} is not to be imported")

# Whatever the environment has loaded at start (import hooks of editable installs) is found by path.
sys.meta_path.insert(0, OnlyNamed())
sys.path[:0] = sys.argv[1].split(":")
for name in sys.argv[2:]:
    importlib.import_module(name)
print(len(sys.argv[2:]), "imported")
"""


def modules_on_hosts() -> list[str]:
    """Every module of these rooms, whatever its depth, but the one that runs the agent when it is imported."""
    paths = [path for room in ON_HOSTS for path in (PACKAGE / room).rglob("*.py")]
    parts = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in paths]
    names = [".".join(p).removesuffix(".__init__") for p in parts]
    return sorted(name for name in names if not name.endswith(".__main__"))


def prove(modules: list[str], *folders: Path) -> subprocess.CompletedProcess[str]:
    path = ":".join(str(folder) for folder in (PACKAGE.parent, *folders))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROOF, path, *modules],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_runs_on_hosts_imports_nothing_but_the_standard_library_and_msgspec():
    modules = modules_on_hosts()
    assert {
        "nbdist.engine.probe",
        "nbdist.engine.frameworks.jax.observe",
        "nbdist.agent.agent",
    } <= set(modules)
    done = prove(modules)
    assert done.stdout.strip() == f"{len(modules)} imported", done.stderr


def test_the_proof_fails_for_a_module_that_imports_numpy(tmp_path):
    (tmp_path / "fed.py").write_text("def later():\n    import numpy\n")
    assert prove(["fed"], tmp_path).returncode == 0
    (tmp_path / "fed.py").write_text("import json\nimport numpy\n")
    done = prove(["fed"], tmp_path)
    assert done.returncode != 0
    assert "numpy is not" in done.stderr


def test_the_proof_fails_for_an_import_that_is_allowed_to_fail_as_well(tmp_path):
    # Such an import would succeed on an engine that has the package.
    (tmp_path / "fed.py").write_text(
        "try:\n    import jax\nexcept ModuleNotFoundError:\n    jax = None\n"
    )
    assert prove(["fed"], tmp_path).returncode != 0
