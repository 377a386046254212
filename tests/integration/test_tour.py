"""The tour, from top to bottom, in a kernel as JupyterLab runs it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.executed import executed, failed, lost_in, tagged, text_of
from tests.integration.tour import CLOSING, SPLIT, TOUR, check_failure


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The executed notebook, cells by id; an error in a cell that must not fail is the test's."""
    return executed(TOUR, folder=tmp_path_factory.mktemp("tour"))


def test_only_the_tagged_cell_fails(tour: dict[str, Any]) -> None:
    assert failed(tour) == tagged(tour) == {"fail"}


def test_the_start_ends_with_one_line_and_the_view(tour: dict[str, Any]) -> None:
    line, *view = tour["start"].outputs
    assert re.fullmatch(CLOSING, line.data["text/plain"])
    kinds = {kind for output in view for kind in output.data}
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= kinds


def test_equal_output_is_shown_once_and_differing_output_by_process(tour: dict[str, Any]) -> None:
    shown = text_of(tour["mesh"]).splitlines()
    assert shown[0] == "processes 0–3   8 devices in all"
    assert [line.split()[:2] for line in shown[1:]] == [["process", str(i)] for i in range(4)]


@pytest.mark.parametrize("training", ["dp", "tp-loop"])
def test_training_learns_the_digits(tour: dict[str, Any], training: str) -> None:
    shown = text_of(tour[training])
    found = re.findall(r"test accuracy (0\.\d+)", shown)
    assert len(found) == 1, shown
    assert float(found[0]) > 0.9
    assert "processes 0–3" in shown


def test_the_loop_shows_each_epoch_once_and_nothing_else(tour: dict[str, Any]) -> None:
    shown = re.sub(r"processes 0–3 *\n?", "", text_of(tour["tp-loop"]))
    lines = [line.strip() for line in shown.splitlines()]
    assert [line.partition(":")[0] for line in lines[:-1]] == [f"epoch {i}" for i in range(10)]


def test_the_slices_of_the_split_kernel_are_shown(tour: dict[str, Any]) -> None:
    assert text_of(tour["tp-shards"]).strip() == SPLIT


def test_the_still_picture_shows_where_the_split_kernel_lies(tour: dict[str, Any]) -> None:
    still = tour["tp-mesh"].outputs[-1].data
    for text in (still["text/plain"], still["text/html"]):
        assert "128:256" in text and "p3 · d1" in text


def test_the_failing_cell_says_who_failed_and_where_the_others_wait(tour: dict[str, Any]) -> None:
    said = text_of(tour["fail"])
    check_failure(said)
    assert "----> 4         raise ValueError" in said
    assert "ProcessError: Process 1 raised ValueError at line " in said


def test_after_the_failure_only_what_was_being_computed_is_lost(tour: dict[str, Any]) -> None:
    said = text_of(tour["fail"])
    assert re.search(r"was repaired in [\d.]+ s\.", said), said
    assert lost_in(said) <= {"loss", "new_params", "new_opt_state"}


def test_training_goes_on_after_the_failure_where_it_was(tour: dict[str, Any]) -> None:
    *_, before = re.findall(r"epoch 9: loss (\d\.\d+)", text_of(tour["tp-loop"]))
    after = re.fullmatch(r"processes 0–3   step 61: loss (\d\.\d+)", text_of(tour["again"]).strip())
    assert after, text_of(tour["again"])
    assert 0.8 * float(before) < float(after[1]) <= float(before)


def test_an_array_is_pulled_whole_and_plotted(tour: dict[str, Any]) -> None:
    assert text_of(tour["pull"]) == "(numpy.ndarray, (64, 256), dtype('float32'))"
    pictures = [output.data["image/png"] for output in tour["plot"].outputs]
    assert len(pictures) == 1 and len(pictures[0]) > 10_000
