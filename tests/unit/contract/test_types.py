"""`nbdist/contract/` is the truth: the schema, the TypeScript types and constants are what it generates."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.frontend_check import environment, is_installed
from tests.places import ROOT

FRONT = ROOT / "labextension"
SCHEMA = FRONT / "src" / "view" / "model" / "snapshot.schema.json"
TYPES = FRONT / "src" / "view" / "model" / "snapshot.ts"


def make_schema(target: Path) -> str:
    subprocess.run([sys.executable, FRONT / "tools" / "make_schema.py", target], check=True)
    return target.read_text(encoding="utf-8")


def make_types(schema: Path, target: Path) -> str:
    """Runs the script `types` of package.json, with its two files replaced."""
    assert is_installed(), "labextension/node_modules is missing: run make check"
    script: str = json.loads((FRONT / "package.json").read_text())["scripts"]["types"]
    for path, other in ((SCHEMA, schema), (TYPES, target)):
        written = path.relative_to(FRONT).as_posix()
        assert written in script, f"the script no longer names {written}: {script}"
        script = script.replace(written, str(other))
    # Prettier takes a file elsewhere only with the settings named.
    script = script.replace(
        "prettier --write", f"prettier --config {FRONT}/.prettierrc.json --write"
    )
    found = environment()
    path = f"{FRONT}/node_modules/.bin:{found['PATH']}"
    done = subprocess.run(
        script, shell=True, cwd=FRONT, env={**found, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target.read_text(encoding="utf-8")


def test_making_the_schema_again_changes_nothing(tmp_path: Path) -> None:
    made = make_schema(tmp_path / "snapshot.schema.json")
    assert made == SCHEMA.read_text(encoding="utf-8"), "run make types"


def test_making_the_types_again_changes_nothing(tmp_path: Path) -> None:
    made = make_types(SCHEMA, tmp_path / "snapshot.ts")
    assert made == TYPES.read_text(encoding="utf-8"), "run make types"


def test_the_types_follow_the_schema(tmp_path: Path) -> None:
    changed = tmp_path / "changed.schema.json"
    schema = SCHEMA.read_text(encoding="utf-8").replace('"arrays_omitted"', '"arrays_left_out"')
    changed.write_text(schema, encoding="utf-8")
    made = make_types(changed, tmp_path / "snapshot.ts")
    assert "arrays_left_out" in made
    assert made != TYPES.read_text(encoding="utf-8")


def test_making_the_constants_again_changes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, FRONT / "tools" / "make_constants.py", tmp_path], check=True)
    made = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*") if path.is_file()}
    assert made
    for name, path in made.items():
        kept = FRONT / "src" / "view" / name
        assert path.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8"), (
            "run make types"
        )
