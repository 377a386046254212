"""What `make test` leaves out another target runs, and `.ci/run` calls them all."""

from __future__ import annotations

import re
import tomllib

from tests.places import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def recipes() -> dict[str, tuple[str, str]]:
    """Each target that runs tests: what it needs, and its commands."""
    found = re.findall(r"^([a-z][\w-]*):(.*)\n((?:\t.*\n)+)", MAKEFILE, re.M)
    return {
        name: (needs, commands)
        for name, needs, commands in found
        if re.search(r"pytest\b|\$\(PYTEST\)", commands)
        and (name.startswith("test") or name == "chaos")
    }


def test_every_target_of_tests_is_called() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    called = set(re.findall(r'^  (?:timed make |")(test\b[\w-]*|chaos)', script, re.M))
    needed = {word for name in called for word in recipes()[name][0].split()}
    assert recipes().keys() == called | (needed & recipes().keys())


def test_what_is_left_out_of_one_is_in_another() -> None:
    _, whole = recipes()["test"]
    others = {name: commands for name, (_, commands) in recipes().items() if name != "test"}
    left_out = re.findall(r"--ignore=,(.+)\)\n", whole)
    assert left_out == ["$(TESTS_DOCS) $(TESTS_RECOVERY) $(TESTS_PLAN) $(TESTS_KERAS)"]
    assert others["test-docs"].endswith("$(PYTEST) $(TESTS_DOCS)\n")
    assert others["test-recovery"].endswith("$(PYTEST) $(TESTS_RECOVERY)\n")
    assert others["test-plan"].endswith("$(PYTEST) $(TESTS_PLAN)\n")
    assert others["test-hosts"].endswith("$(PYTEST) tests/hosts\n")
    assert others["test-keras"].endswith("$(PYTEST) $(TESTS_KERAS)\n")
    assert '-m "not variant"' in whole
    assert "-m variant tests/browser tests/integration" in others["test-variants"]


def test_each_folder_of_tests_is_run_by_a_target() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    paths = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    commands = " ".join([*paths, *(commands for _, commands in recipes().values()), MAKEFILE])
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    for folder in sorted(folders):
        room = folder.relative_to(ROOT / "tests").parts[0]
        assert re.search(rf"tests/{room}\b", commands), room
    # What is given by name is not ignored, so that `make test` would run these.
    assert not {"tests/hosts", "tests/docs"} & {*paths}
    elsewhere = "".join(
        re.findall(r"^TESTS_(?:DOCS|RECOVERY|PLAN|KERAS) *:=(?:.*\\\n)*.*", MAKEFILE, re.M)
    )
    assert "containers.py" in elsewhere
    for path in paths:
        assert not path.endswith(".py") or path.rpartition("test_")[2] not in elsewhere, path


def test_no_case_is_left_out_elsewhere() -> None:
    elsewhere = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.parent.name not in ("browser", "integration")
        and path.name != "test_chaos.py"  # of which `make chaos` runs all cases
        and re.search(r"^from tests\.variants import", path.read_text(encoding="utf-8"), re.M)
    ]
    assert elsewhere == []
