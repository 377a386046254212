"""The notebook about many hosts, from top to bottom, on two hosts over ssh."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.executed import NOTEBOOKS, Cells, executed, failed, tagged, text_of
from tests.integration.notebook import ANSI
from tests.integration.tour import SPLIT, TOUR, check_failure
from tests.testbed.fixtures import need
from tests.testbed.hosts import TestBed
from tests.testbed.possible import why_no_hosts

NOTEBOOK = NOTEBOOKS / "04_many_hosts.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    """The executed notebook, cells by id; the hosts are looked at before they are taken away."""
    need(why_no_hosts())
    folder: Path = tmp_path_factory.mktemp("hosts")
    with TestBed(2, shown=(folder,)) as bed:
        where = f"--hosts h1:2,h2:2 --ssh-config {bed.ssh_config}"
        found = executed(NOTEBOOK, folder=folder, NBDIST_WHERE=where)
        left = {i: (bed.processes(i), bed.files_left(i, "nbdist-*")) for i in (1, 2)}
        assert left == {1: ([], []), 2: ([], [])}
        yield found


def code_cells(path: Path) -> list[str]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def test_the_cells_of_the_tour_are_here_unchanged_and_in_order() -> None:
    tour, here = code_cells(TOUR), iter(code_cells(NOTEBOOK))
    wanted = [cell for cell in tour if not cell.startswith("%dist_init")]
    assert len(wanted) == len(tour) - 1
    assert [cell for cell in wanted if cell not in here] == []


def test_two_hosts_form_one_cluster_and_only_the_failure_fails(cells: Cells) -> None:
    closing = r"4 processes on 2 hosts, 8 cpu devices, jax \S+, ready in \d+\.\d s"
    assert re.search(closing, text_of(cells["init"]))
    assert "2 hosts examined" in text_of(cells["doctor"])
    (only,) = failed(cells)
    assert tagged(cells) == {only}
    check_failure(text_of(cells[only]))


def test_pieces_lie_on_both_hosts_and_come_back_whole(cells: Cells) -> None:
    shown = "\n".join(ANSI.sub("", text_of(cell)) for cell in cells.values() if "outputs" in cell)
    assert SPLIT in shown
    assert "processes 2, 3   h2 [(slice(" in text_of(cells["host-target"])
    assert "(numpy.ndarray, (64, 256), dtype('float32'))" in shown
