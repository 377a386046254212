"""What is written to the descriptors of a process becomes output, without the lines of gloo."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.engine.cell import output
from nbdist.engine.cell.output import Descriptors
from tests.unit.engine.cell.test_gloo import MESSAGE
from tests.waiting import wait_for


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which a process's descriptors lead."""
    file = tmp_path / "process-0.log"
    file.touch()
    monkeypatch.setenv("NBDIST_LOG", str(file))
    return file


def test_text_of_descriptors_comes_again_after_text_that_could_not_be_published(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PERIOD_SECONDS", 0.01)
    published: list[str] = []

    def publish(text: str) -> None:
        published.append(text)
        if "bad" in text:
            raise RuntimeError("the socket is closed")

    Descriptors(publish).start()
    with log.open("a") as file:
        file.write("bad\n")
    wait_for(lambda: published == ["bad\n"])
    with log.open("a") as file:
        file.write("good\n")
    wait_for(lambda: published[-1] == "good\n")


def test_all_that_was_written_is_passed_on_before_the_cell_ends(log: Path) -> None:
    published: list[str] = []
    reader = Descriptors(published.append)
    reader.start()
    text = "äöü\n" * (output.LARGEST_READ // 3)
    log.write_text(text)
    reader.flush()
    assert "".join(published) == text  # also characters at the edges of a read


def test_of_more_than_can_be_passed_on_the_end_is_and_where_all_of_it_is(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MOST_BEHIND", 4)
    published: list[str] = []
    reader = Descriptors(published.append)
    reader.start()
    log.write_text(f"{'x' * 3000}end\n")
    reader.flush()
    said, end = published
    assert said == f"\n… 2.9 KB of output not shown; all of it is in {log}\n"
    assert end == "end\n"


@pytest.mark.parametrize("cut_at", [7, 30, len(MESSAGE) - 2])
def test_a_line_of_gloos_that_is_read_in_two_parts_is_left_out(log: Path, cut_at: int) -> None:
    published: list[str] = []
    reader = Descriptors(published.append)
    reader.start()
    for part in ("mine\n" + MESSAGE[:cut_at], MESSAGE[cut_at:] + "also mine"):
        with log.open("a") as file:
            file.write(part)
        reader.flush()
    wait_for(lambda: "".join(published) == "mine\nalso mine")


def test_a_line_that_only_looks_like_one_comes_when_no_more_does(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "REST_SECONDS", 0.0)
    published: list[str] = []
    reader = Descriptors(published.append)
    reader.start()
    log.write_text("my [Gloo] of")
    reader.flush()
    wait_for(lambda: published == ["my [Gloo] of"])
