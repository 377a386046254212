"""The notebook of a host that is switched off, from top to bottom, on three hosts over ssh."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from tests.integration.notebook import Notebook, Output
from tests.places import ROOT
from tests.testbed.fixtures import need
from tests.testbed.hosts import TestBed
from tests.testbed.possible import why_no_hosts

NOTEBOOK = ROOT / "notebooks" / "07_pull_the_plug.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Output]]:
    """What each code cell has shown, by its id; the hosts are looked at before they are taken away."""
    need(why_no_hosts())
    folder: Path = tmp_path_factory.mktemp("plug")
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    with TestBed(3, shown=(folder,)) as bed:
        where = f"--hosts h1:1,h2:1,h3:1 --ssh-config {bed.ssh_config}"
        environment = {"IPYTHONDIR": str(folder / "ipython"), "NBDIST_WHERE": where}
        with Notebook(folder=folder, environment=environment) as notebook:
            found = {}
            before: dict[str, Callable[[], object]] = {"recover": lambda: bed.boot(2)}
            for cell in cells:
                if cell.cell_type != "code":
                    continue
                before.get(cell.id, lambda: None)()
                request = notebook.send(cell.source)
                if cell.id == "pull":
                    notebook.collect(request, until="training")
                    bed.crash(2)
                found[cell.id] = notebook.collect(request)
        left = {i: (bed.processes(i), bed.files_left(i, "nbdist-*")) for i in (1, 2, 3)}
        assert left == {1: ([], []), 2: ([], []), 3: ([], [])}
        yield found


def test_only_what_is_meant_to_fail_fails(executed: dict[str, Output]) -> None:
    failed = {name for name, output in executed.items() if output.error is not None}
    assert failed == {"pull", "gone"}, {n: executed[n].traceback for n in failed}


def test_the_host_is_named_and_what_to_type(executed: dict[str, Output]) -> None:
    said = executed["pull"].traceback
    assert re.search(r"process 1 .*h2", said), said
    assert "%dist_recover" in executed["status"].text
    assert "%dist_recover --without HOST" in executed["gone"].traceback
    assert "h2" in executed["gone"].traceback


def test_the_training_goes_on_from_the_copies_with_the_losses_of_an_undisturbed_one(
    executed: dict[str, Output],
) -> None:
    said = executed["recover"].text
    assert "All 3 processes started" in said
    assert "s they were" in said
    assert "to step 40" in executed["on"].text
    assert "the same losses: True" in executed["on"].text


def test_it_goes_on_without_a_host(executed: dict[str, Output]) -> None:
    assert "mesh data=3 × model=2 becomes data=2 × model=2" in executed["without"].text
    assert "2 processes, step 60" in executed["two"].text
