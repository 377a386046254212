"""`nbdist/contract/` is the truth: the schema, the TypeScript types and constants are what it generates."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frontend_tools import environment, is_installed
from tests.places import ROOT

FRONT = ROOT / "labextension"
MODEL = FRONT / "src" / "view" / "model"
MADE = ["snapshot", "messages"]


def schema(name: str) -> Path:
    return MODEL / f"{name}.schema.json"


def make_types(schemas: dict[str, Path], target: Path) -> None:
    """Runs the script `types` of package.json, reading these schemas and writing into a folder."""
    assert is_installed(), "labextension/node_modules is missing: run make check"
    script: str = json.loads((FRONT / "package.json").read_text())["scripts"]["types"]
    for name in MADE:
        for path, other in (
            (schema(name), schemas.get(name, schema(name))),
            (MODEL / f"{name}.ts", target / f"{name}.ts"),
        ):
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


def test_making_the_schemas_again_changes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, FRONT / "tools" / "make_schema.py", tmp_path], check=True)
    assert {path.name for path in tmp_path.iterdir()} == {schema(name).name for name in MADE}
    for path in tmp_path.iterdir():
        assert path.read_text(encoding="utf-8") == (MODEL / path.name).read_text(
            encoding="utf-8"
        ), "run make types"


def test_making_the_types_again_changes_nothing(tmp_path: Path) -> None:
    make_types({}, tmp_path)
    for name in MADE:
        made = (tmp_path / f"{name}.ts").read_text(encoding="utf-8")
        assert made == (MODEL / f"{name}.ts").read_text(encoding="utf-8"), "run make types"


@pytest.mark.parametrize(
    ("name", "field"), [("snapshot", "arrays_omitted"), ("messages", "sequence")]
)
def test_the_types_follow_the_schema(tmp_path: Path, name: str, field: str) -> None:
    changed = tmp_path / "changed.schema.json"
    text = schema(name).read_text(encoding="utf-8").replace(f'"{field}"', '"another"')
    changed.write_text(text, encoding="utf-8")
    make_types({name: changed}, tmp_path)
    made = (tmp_path / f"{name}.ts").read_text(encoding="utf-8")
    assert "another: number" in made and f"{field}:" not in made


def test_making_the_constants_again_changes_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, FRONT / "tools" / "make_constants.py", tmp_path], check=True)
    made = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*") if path.is_file()}
    assert made
    for name, path in made.items():
        kept = FRONT / "src" / "view" / name
        assert path.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8"), (
            "run make types"
        )
