"""Lines of pages that need Slurm, pods or other hosts are read by the parser that would read them."""

from __future__ import annotations

import inspect
import re

import pytest

import nbdist
from nbdist.errors import OptionError
from nbdist.magics import options
from tests.docs.pages import DOCS, pages, typed

LINE = re.compile(r"^%(dist_init|dist_doctor)\b(.*)$", re.M)
QUOTED = re.compile(r"`%(dist_init|dist_doctor) (--?[^`…]+)`")
LINES = [
    *(
        (block.place, name, line.strip())
        for page in pages()
        for block in typed(page)
        for name, line in LINE.findall(block.code)
    ),
    *(
        (str(page.relative_to(DOCS)), name, line)
        for page in sorted(DOCS.rglob("*.md"))
        for name, line in QUOTED.findall(page.read_text(encoding="utf-8"))
        if not re.search(r"\b[A-Z]{2,}\b| S$", line)  # names that stand for a value
    ),
]


def read(name: str, line: str) -> None:
    """Reads a line as the magic does.

    Raises:
      OptionError: It cannot be read.
    """
    asked = options.parser(name).parse(line)
    if name == "dist_init":
        (options.attach_arguments if asked.attach else options.start_arguments)(asked)


@pytest.mark.parametrize(("place", "name", "line"), LINES)
def test_a_line_that_starts_a_session_can_be_read(place: str, name: str, line: str) -> None:
    read(name, line)


def test_every_way_to_start_is_among_them() -> None:
    all_lines = " ".join(line for _, _, line in LINES)
    for option in ("--hosts ", "--slurm", "--mpi", "--tpu ", "--framework tensorflow", "--attach"):
        assert option in all_lines


@pytest.mark.parametrize("line", ["--slurmy -N 2", "-N two --slurm", "--hosts h1:2 h2:2"])
def test_a_line_that_cannot_be_read_would_be_found(line: str) -> None:
    with pytest.raises(OptionError):
        read("dist_init", line)


def test_calls_of_start_in_pages_use_parameters_that_exist() -> None:
    known = set(inspect.signature(nbdist.start).parameters)
    named = {
        name
        for page in DOCS.rglob("*.md")
        for call in re.findall(r"nbdist\.start\(([^)]*)\)", page.read_text(encoding="utf-8"))
        for name in re.findall(r"(\w+)=", call)
    }
    assert {"devices_per_process", "platform"} <= named <= known
