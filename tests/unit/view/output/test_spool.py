"""The private files that hold all of a flood."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from nbdist.view.output.bounded_log import Spool
from tests.builders.outputs import cut_lines, flood, texts


def test_file_and_folder_are_private(cell, tmp_path):
    cell.stream(0, "stdout", flood(0) * 5)
    folder = tmp_path / "cell"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "process-0.txt").stat().st_mode) == 0o600


def test_output_that_can_be_shown_makes_no_file(cell, tmp_path):
    cell.stream(0, "stdout", "short\n")
    cell.close()
    assert not (tmp_path / "cell").exists()


def test_clearing_after_a_flood_removes_the_file(cell, clock, tmp_path):
    cell.stream(0, "stdout", flood(0) * 5)
    path = tmp_path / "cell" / "process-0.txt"
    assert path.exists()
    cell.clear(0)
    assert not path.exists()
    cell.stream(0, "stdout", "new\n")
    clock[0] += 1.0
    assert [block.lines for block in texts(cell)] == [("new",)]


def test_file_that_cannot_be_written_is_named_with_the_reason(cell, clock, tmp_path):
    (tmp_path / "cell").write_text("a file where the folder should be")
    cell.stream(0, "stdout", flood(0) * 5)
    path = tmp_path / "cell" / "process-0.txt"
    clock[0] += 1.0
    assert cut_lines(cell)[0].endswith(f"more, {path} has a part (not written: File exists)")


def test_link_in_the_place_of_the_file_is_not_followed(cell, clock, tmp_path):
    (tmp_path / "cell").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "cell" / "process-0.txt").symlink_to(tmp_path / "victim")
    cell.stream(0, "stdout", flood(0) * 5)
    assert (tmp_path / "victim").read_text() == "precious"
    clock[0] += 1.0
    assert os.strerror(errno.ELOOP) in cut_lines(cell)[0]


def test_file_stops_growing_at_its_limit(tmp_path):
    spool = Spool(tmp_path / "x" / "all.txt", largest_bytes=100)
    spool.start()
    for _ in range(20):
        spool.write("0123456789")
    spool.close()
    assert spool.path.stat().st_size == 100
    assert spool.problem == "the file ends after 100 bytes"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_disk_is_noted_and_not_raised():
    spool = Spool(Path("/dev/full"))
    spool.start()
    spool.write("text")
    spool.flush()
    spool.write("more")
    spool.close()
    assert spool.problem == "not written: No space left on device"
