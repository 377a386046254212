"""The notebook about many hosts, from top to bottom, on two hosts over ssh."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.integration.notebook import ANSI, execute
from tests.integration.test_tour import (
    CELL_SECONDS,
    MAY_FAIL,
    ROOT,
    SPLIT,
    TOUR,
    check_failure,
    text_of,
    users_environment,
)
from tests.testbed.fixtures import need
from tests.testbed.hosts import TestBed
from tests.testbed.possible import why_no_hosts

NOTEBOOK = ROOT / "notebooks" / "04_many_hosts.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The executed notebook, cells by id; the hosts are looked at before they are taken away."""
    need(why_no_hosts())
    folder: Path = tmp_path_factory.mktemp("hosts")
    with TestBed(2, shown=(folder,)) as bed:
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        where = f"--hosts h1:2,h2:2 --ssh-config {bed.ssh_config}"
        env = users_environment(IPYTHONDIR=str(folder / "ipython"), NBDIST_WHERE=where)
        execute(notebook, folder=folder, env=env, cell_timeout_s=CELL_SECONDS)
        left = {i: (bed.processes(i), bed.files_left(i, "nbdist-*")) for i in (1, 2)}
        assert left == {1: ([], []), 2: ([], [])}
        yield {cell.id: cell for cell in notebook.cells}


def code_cells(path: Path) -> list[str]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def test_the_notebook_is_committed_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    ran = [c.id for c in notebook.cells if c.get("outputs") or c.get("execution_count") is not None]
    assert ran == []


def test_the_cells_of_the_tour_are_here_unchanged_and_in_order() -> None:
    tour, here = code_cells(TOUR), iter(code_cells(NOTEBOOK))
    wanted = [cell for cell in tour if not cell.startswith("%dist_init")]
    assert len(wanted) == len(tour) - 1
    assert [cell for cell in wanted if cell not in here] == []


def test_two_hosts_form_one_cluster_and_only_the_failure_fails(executed: dict[str, Any]) -> None:
    closing = r"4 processes on 2 hosts, 8 cpu devices, jax \S+, ready in \d+\.\d s"
    assert re.search(closing, text_of(executed["init"]))
    assert "2 hosts examined" in text_of(executed["doctor"])
    tagged = {c for c, cell in executed.items() if MAY_FAIL in cell.metadata.get("tags", ())}
    failed = {
        c
        for c, cell in executed.items()
        if any(o.output_type == "error" for o in cell.get("outputs", ()))
    }
    assert failed == tagged
    assert len(failed) == 1
    check_failure(text_of(executed[failed.pop()]))


def test_pieces_lie_on_both_hosts_and_come_back_whole(executed: dict[str, Any]) -> None:
    shown = "\n".join(
        ANSI.sub("", text_of(cell)) for cell in executed.values() if "outputs" in cell
    )
    assert SPLIT in shown
    assert "processes 2, 3   h2 [(slice(" in text_of(executed["host-target"])
    assert "(numpy.ndarray, (64, 256), dtype('float32'))" in shown
