"""Floods: bounded memory, everything in a private file, and a refresh that stays cheap."""

from __future__ import annotations

import errno
import os
import random
import stat
import threading
import tracemalloc
from pathlib import Path

import pytest

from nbdist.notation import bytes_text
from nbdist.view.output import CellOutput, RichBlock
from nbdist.view.output.bounded_log import KeptEntries, Limits, Spool
from tests.builders.outputs import LINES, cut_lines, flood, texts

MB = 1 << 20


@pytest.mark.parametrize("seed", range(8))
def test_of_a_flood_no_process_is_said_to_have_shown_what_it_has_not(tmp_path, clock, seed):
    chance = random.Random(seed)
    cell = CellOutput(processes=range(3), folder=tmp_path / "cell", clock=lambda: clock[0])
    said = [0, 0, 0]
    for step in range(80):
        process_id = chance.randrange(3)
        count = chance.choice([1, 50, 700])
        text = "".join(f"line {said[process_id] + n}\n" for n in range(count))
        said[process_id] += count
        cell.stream(process_id, "stdout", text)
        clock[0] += chance.choice([0.0, 0.1, 0.7])
        if step % 4:
            continue
        for block in texts(cell):
            numbers = [int(line.split()[1]) for line in block.lines if line.startswith("line")]
            assert max(numbers, default=-1) < min(said[p] for p in block.processes)
    cell.close()


def test_equal_floods_are_one_cut_block_and_one_file_has_all(cell, tmp_path):
    for round_ in range(10):
        for process_id in range(4):
            cell.stream(process_id, "stdout", flood(round_ * LINES))
    cell.close()
    (block,) = texts(cell)
    assert block.processes == (0, 1, 2, 3)
    assert block.lines[0].startswith("line 0 ")
    assert block.lines[-1] == f"line {10 * LINES - 1} of a flood"
    assert len(block.lines) < 2 * LINES
    (cut,) = cut_lines(cell)
    path = tmp_path / "cell" / "process-0.txt"
    assert cut.endswith(f"more, all of it in {path}")
    assert path.read_text() == "".join(flood(round_ * LINES) for round_ in range(10))


def test_what_the_cut_says_is_missing_is_missing(cell, tmp_path):
    cell.stream(0, "stdout", "".join(f"{'é' * 50} {n}\n" for n in range(50_000)))
    cell.close()
    (block,) = texts(cell)
    whole = (tmp_path / "cell" / "process-0.txt").stat().st_size
    kept = sum(len(line.encode()) + 1 for line in block.lines if not line.startswith("…"))
    assert cut_lines(cell)[0].startswith(f"… {bytes_text(whole - kept)} more")


def test_a_differing_line_in_the_part_cut_is_not_folded_away(cell):
    for process_id in range(4):
        for round_ in range(5):
            cell.stream(process_id, "stdout", flood(round_ * LINES))
            if round_ == 2 and process_id == 3:
                cell.stream(process_id, "stdout", "nan\n")
    cell.close()
    assert [block.processes for block in texts(cell)] == [
        (0, 1, 2, 3),
        (0, 1, 2),
        (3,),
        (0, 1, 2, 3),
    ]
    assert len(cut_lines(cell)) == 2


def test_floods_at_different_places_are_one_while_they_run(cell, clock):
    for round_ in range(8):
        for process_id in range(4):
            for _ in range(1 + (process_id == 2 and round_ == 7)):
                cell.stream(process_id, "stdout", flood(round_ * LINES))
        clock[0] += 0.3
        assert [block.processes for block in texts(cell)] == [(0, 1, 2, 3)]
    clock[0] += 10.0
    cell.stream(2, "stdout", flood(0))
    clock[0] += 10.0
    assert [block.processes for block in texts(cell)][1:] != []


def test_floods_that_differ_after_the_cut_read_differently_while_they_run(cell):
    for process_id in range(4):
        cell.stream(process_id, "stdout", flood(0) * 2)
    assert len(texts(cell)) == 1
    for process_id in range(4):
        cell.stream(process_id, "stdout", flood(0, said_by=f" {process_id % 2}"))
    assert [block.processes for block in texts(cell)] == [(0, 1, 2, 3), (0, 2), (1, 3)]


def test_floods_behind_heads_of_another_length_are_not_taken_for_one(cell):
    # The head of process 3 is full sooner, in lines.
    cell.stream(3, "stdout", f"{'x' * 4000}\n")
    for process_id in range(4):
        cell.stream(process_id, "stdout", "".join(f"{'y' * 250} {n}\n" for n in range(280)))
    assert len(cut_lines(cell)) == 2


def test_displays_that_are_large_together_are_cut(cell):
    for number in range(40):
        cell.display(0, {"text/html": f"{number}" + "x" * (4 * MB)}, {})
    cell.close()
    kept = [block for block in cell.blocks() if isinstance(block, RichBlock)]
    assert sum(len(block.data["text/html"]) for block in kept) < 40 * MB
    assert cut_lines(cell)[0].startswith(f"… {40 - len(kept)} displays more")


def test_cell_is_read_while_it_is_fed_from_another_thread(cell):
    def feed():
        for number in range(3000):
            cell.stream(number % 4, "stdout", f"line {number // 4}\n")

    feeder = threading.Thread(target=feed)
    feeder.start()
    while feeder.is_alive():
        cell.blocks()
    feeder.join()
    (block,) = texts(cell)
    assert block.lines == tuple(f"line {number}" for number in range(750))


def test_the_hash_does_not_depend_on_how_the_text_arrives(spool):
    limits = Limits.for_processes(4)
    lines = [f"{number}/9000 - 3s - 3ms/step" for number in range(9000)]
    digests = set()
    for size in (1, 100, 2999, 9000):
        kept = KeptEntries(limits, spool)
        for start in range(0, len(lines), size):
            kept.add_lines("stdout", lines[start : start + size], 0.0)
        spool.discard()
        digests.add((kept.count, kept.digest, kept.total, tuple(kept.tail)))
    assert len(digests) == 1


def test_checkpoints_of_an_endless_flood_are_bounded(spool):
    kept = KeptEntries(Limits.for_processes(4), spool)
    for _ in range(100):
        kept.add_lines("stdout", [str(number) for number in range(10_000)], 0.0)
    assert len(kept.checkpoints) <= 513
    assert kept.checkpoints[-1].position > 0.99 * kept.count - 1000


def test_memory_stays_bounded_in_a_flood(cell):
    text = flood(0)
    for process_id in range(4):
        cell.stream(process_id, "stdout", text * 2)
    tracemalloc.start()
    try:
        for _ in range(40):
            for process_id in range(4):
                cell.stream(process_id, "stdout", text)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 2 * MB


def test_line_of_ten_megabytes_is_cut_and_whole_in_the_file(cell, tmp_path):
    for process_id in range(4):
        for _ in range(10):
            cell.stream(process_id, "stdout", "0123456789" * (MB // 10))
        cell.stream(process_id, "stdout", "\nend\n")
    cell.close()
    (block,) = texts(cell)
    assert block.processes == (0, 1, 2, 3)
    assert sum(map(len, block.lines)) < 100_000
    assert block.lines[1].startswith("… 9.")
    assert block.lines[-1] == "end"
    text = (tmp_path / "cell" / "process-0.txt").read_text()
    assert text == "0123456789" * (MB // 10) * 10 + "\nend\n"


def test_hundred_thousand_displays_are_capped_with_a_count(cell):
    for number in range(100_000):
        data = {"text/html": f"<b>{number}</b>", "text/plain": f"object {number}"}
        cell.display(0, data, {}, display_id=f"d{number}")
    cell.close()
    blocks = cell.blocks()
    shown = [block for block in blocks if isinstance(block, RichBlock)]
    assert len(shown) < 60
    assert shown[0].data["text/plain"] == "object 0"
    assert shown[-1].data["text/plain"] == "object 99999"
    assert not cell.display(0, {"text/html": "x"}, {}, display_id="d500", update=True)
    assert cell.display(0, {"text/html": "x"}, {}, display_id="d99999", update=True)
    (cut,) = cut_lines(cell)
    assert cut.startswith(f"… {100_000 - len(shown)} displays more, ")
    assert Path(cut.rsplit(" ", 1)[1]).read_text().count("\n") == 100_000


def test_huge_display_is_replaced_by_its_size(cell):
    cell.display(0, {"text/html": "x" * (64 * MB), "text/plain": "table"}, {})
    cell.close()
    (block,) = cell.blocks()
    said = "… a display of 64 MB is not shown (at most 8 MB): text/html, text/plain"
    assert block.data == {"text/plain": said}


def test_limits_of_many_processes_add_up_to_what_a_cell_shows():
    for count in (1, 4, 64):
        limits = Limits.for_processes(count)
        assert limits.characters * count <= 200_000
        assert limits.tail.characters * count <= 40_000
    assert Limits.for_processes(2240).lines >= 20


def test_cost_of_a_refresh_does_not_grow_with_the_flood(cell):
    def operations():
        tracemalloc.start()
        cell._folded = None
        cell.blocks()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    for process_id in range(4):
        cell.stream(process_id, "stdout", flood(0) * 3)
    early = operations()
    for _ in range(20):
        for process_id in range(4):
            cell.stream(process_id, "stdout", flood(0))
    assert operations() < 1.5 * early


def test_file_and_folder_are_private(cell, tmp_path):
    cell.stream(0, "stdout", flood(0) * 5)
    folder = tmp_path / "cell"
    assert [path.name for path in folder.iterdir()] == ["process-0.txt"], "none for the others"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "process-0.txt").stat().st_mode) == 0o600


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
    assert spool.problem is not None and "100 bytes" in spool.problem


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_disk_is_noted_and_not_raised():
    spool = Spool(Path("/dev/full"))
    spool.start()
    spool.write("text")
    spool.flush()
    spool.write("more")
    spool.close()
    assert spool.problem is not None and os.strerror(errno.ENOSPC) in spool.problem
