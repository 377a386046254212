"""Progress bars: which lines are bars, and when two of them count as one."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from nbdist.view.output.agree import slowest_bar
from nbdist.view.output.bounded_log import HOLD_S
from nbdist.view.output.entries import parse_bar
from nbdist.view.widget_models import WidgetBar

# As `keras.utils.Progbar` of Keras 3.15 writes them (JAX back end).
KERAS = (
    "\x1b[1m{n:2}/60\x1b[0m \x1b[32m{done}\x1b[0m\x1b[37m{rest}\x1b[0m \x1b[1m{eta}s\x1b[0m "
    "{ms}ms/step - accuracy: {accuracy:.4f} - loss: {loss:.4f}"
)


def keras(n, *, eta=0, ms=4, loss=0.5, accuracy=0.8):
    full = n // 3
    bar = KERAS.format(
        n=n, done="━" * full, rest="━" * (20 - full), eta=eta, ms=ms, loss=loss, accuracy=accuracy
    )
    return "\b" * 70 + "\r" + bar + ("\n" if n == 60 else "")


def shown(cell):
    return [(block.processes, block.lines) for block in cell.blocks()]


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[1m60/60\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m0s\x1b[0m 4ms/step - loss: 0.01",
        " 1/60 ━━━━━━━━━━━━━━━━━━━━ 2:07 2s/step",
        "      5/Unknown \x1b[1m0s\x1b[0m 60ms/step - loss: 0.4567",
        "938/938 - 3s - 3ms/step - accuracy: 0.81 - loss: 0.5",
        "469/469 [==============================] - 2s 3ms/step - loss: 0.31",
        " 12/469 [..............................] - ETA: 1:02 - loss: 0.31",
        "469/469 - 1s - loss: 0.5134 - accuracy: 0.8552 - 1s/epoch - 3ms/step",
        " 45%|████▌     | 45/100 [00:01<00:01, 40.20it/s]",
        "epochs:   0%|          | 0/2 [00:00<?, ?it/s]",
        "get: 100%|##########| 1.20M/1.20M [1:02:03<00:00, 3.4kB/s, loss=0.1]",
        "45it [00:01, 40.20it/s]",
        "pairs: 45pair [00:01,  1.20s/pair]",
        "Working... ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  45% 0:00:12",
    ],
)
def test_bar_is_recognized(line):
    assert parse_bar(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "took 3s",
        "step 3/60 took 3s",
        "12/60",
        "1/2 - 3s",
        "12/60 0.5s",
        "read /data/1/2 [00:01]",
        "throughput 45 it/s",
        "50%",
        "━━━━━━━━━━━━━━━━━━━━",
        "1/60 " + "━" * 2000 + " 0s 4ms/step",
        "",
    ],
)
def test_ordinary_line_is_no_bar(line):
    assert parse_bar(line) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("60/60 ━━━━━ 3s 4ms/step - loss: 0.5", "60/60 ━━━━━ 12s 1s/step - loss: 0.5", True),
        ("60/60 ━━━━━ 3s 4ms/step - loss: 0.5", "60/60 ━━━━━ 3s 4ms/step - loss: 0.6", False),
        ("60/60 ━━━━━ 3s 4ms/step", "59/60 ━━━━━ 3s 4ms/step", False),
        ("9/9 - 3s - 3ms/step - loss: 1.0", "9/9 - 5s - 4us/step - loss: 1.0", True),
        (
            "9/9 - 1s - loss: 1 - 1s/epoch - 3ms/step",
            "9/9 - 2s - loss: 1 - 2s/epoch - 4ms/step",
            True,
        ),
        ("100%|██| 5/5 [00:01<00:00, 4.2it/s]", "100%|██| 5/5 [01:01<00:00, ?it/s]", True),
        ("100%|██| 5/5 [00:01<00:00, 4.2it/s]", "100%|██| 5/5 [00:06<00:00,  1.20s/it]", True),
        (
            "100%|██| 5/5 [00:01<00:00, 4it/s, loss=1]",
            "100%|██| 5/5 [00:01<00:00, 4it/s, loss=2]",
            False,
        ),
        ("a: 100%|██| 5/5 [00:01<00:00, 4it/s]", "b: 100%|██| 5/5 [00:01<00:00, 4it/s]", False),
    ],
)
def test_key_leaves_out_timings_only(one, other, same):
    assert (parse_bar(one).key == parse_bar(other).key) is same


def test_progress_is_the_count_done():
    assert parse_bar(" 45%|████▌ | 45/100 [00:01<00:01, 40.2it/s]").progress == 45
    assert parse_bar("50%|██| 1.5M/3M [00:01<00:01, 2MB/s]").progress == 1.5e6
    assert parse_bar("12/60 ━━━━━ 3s 4ms/step").progress == 12


def test_real_tqdm_lines_are_bars_at_every_step():
    tqdm = pytest.importorskip("tqdm").tqdm
    file = io.StringIO()
    with tqdm(total=7, file=file, ncols=70, mininterval=0) as bar:
        for step in range(7):
            bar.update()
            bar.set_postfix(loss=step / 7)
    lines = [line for line in file.getvalue().replace("\n", "\r").split("\r") if line.strip()]
    assert len(lines) > 7
    assert {parse_bar(line).skeleton for line in lines} == {" 7"}


def test_keras_bars_at_different_steps_are_one_and_show_the_slowest(cell):
    for process_id, n in enumerate((33, 27, 39, 30)):
        cell.stream(process_id, "stdout", "Epoch 1/2\n")
        for step in range(3, n + 1, 3):
            cell.stream(process_id, "stdout", keras(step, ms=process_id, loss=1 / step))
    ((processes, lines),) = shown(cell)
    assert processes == (0, 1, 2, 3)
    assert len(lines) == 2
    assert "27/60" in lines[1]


@pytest.mark.parametrize("slow", [0, 3])
def test_a_bar_that_all_have_finished_has_the_timings_of_the_slowest(cell, clock, slow):
    order = [p for p in range(4) if p != slow]
    for process_id in range(4):
        cell.stream(process_id, "stdout", keras(30))
    for process_id in [*order, slow]:
        clock[0] += 1.0
        cell.stream(process_id, "stdout", keras(60, ms=400 if process_id == slow else 100))
    cell.close()
    ((processes, (line,)),) = shown(cell)
    assert processes == (0, 1, 2, 3)
    assert "400ms/step" in line


def test_of_widgets_that_are_equally_far_the_last_to_come_there_counts():
    def at(value, changed_at):
        bar = WidgetBar(value, 8, False, f"in {changed_at:g} s")
        return SimpleNamespace(bar=bar, changed_at=changed_at)

    assert slowest_bar([at(8, 1.0), at(8, 4.0)]).text == "in 4 s"
    assert slowest_bar([at(8, 1.0), at(5, 0.5), at(8, 4.0)]).value == 5
    assert slowest_bar([]) is None


def test_bars_above_the_cursor_are_still_the_same_bars(cell):
    for process_id in range(4):
        for step in range(2 + process_id):
            bars = "\n".join(f"\r{one}: 9%|█ | {step}/9 [00:00<00:01, 4it/s]" for one in "ab")
            cell.stream(process_id, "stderr", ("\x1b[1A" if step else "") + bars)
    ((processes, lines),) = shown(cell)
    assert processes == (0, 1, 2, 3)
    assert [line[:12] for line in lines] == ["a: 9%|█ | 1/", "b: 9%|█ | 1/"]


def test_one_process_that_is_an_epoch_ahead_does_not_split_the_bar(cell, clock):
    for process_id in range(4):
        cell.stream(process_id, "stdout", "Epoch 1/2\n" + keras(30))
    cell.stream(2, "stdout", keras(60) + "Epoch 2/2\n" + keras(3))
    ((processes, lines),) = shown(cell)
    assert processes == (0, 1, 2, 3)
    assert "30/60" in lines[1]
    clock[0] += HOLD_S
    (first, (processes, lines)) = shown(cell)
    assert first[0] == (0, 1, 2, 3)
    assert processes == (2,)
    assert lines[0] == "Epoch 2/2"


@pytest.mark.parametrize(("loss", "groups"), [(0.5, [(0, 1, 2, 3)]), (0.7, [(0, 1, 3), (2,)])])
def test_finished_keras_bars_that_differ_in_timing_only_are_one(cell, loss, groups):
    for process_id in range(4):
        its_loss = loss if process_id == 2 else 0.5
        last = keras(60, eta=process_id, ms=process_id, loss=its_loss)
        cell.stream(process_id, "stdout", keras(30) + last)
    cell.close()
    assert [processes for processes, _ in shown(cell)] == groups
    assert cell.blocks()[0].lines[0].startswith("\x1b[1m60/60\x1b[0m \x1b[32m━")


def test_bars_left_unfinished_at_different_steps_differ_at_the_end(cell):
    for process_id in range(4):
        cell.stream(
            process_id, "stderr", f"\r {process_id}0%|██  | {process_id}/9 [00:01<00:01, 4it/s]"
        )
    assert len(shown(cell)) == 1
    cell.close()
    assert len(shown(cell)) == 4


def test_prints_between_the_steps_of_a_bar_fold_whatever_the_timing(cell):
    for step in range(5):
        for process_id in range(4):
            # Each process has another number of redrawings between its prints.
            for part in range(process_id + 1):
                bar = f"\r{step * 20}%|██  | {step}/5 [00:0{part}<00:01, {process_id}it/s]"
                cell.stream(process_id, "stderr", bar)
            cell.stream(process_id, "stdout", f"step {step}\n")
            assert len(shown(cell)) <= 1
    cell.close()
    ((_, lines),) = shown(cell)
    assert [line for line in lines if line.startswith("step")] == [f"step {n}" for n in range(5)]


def test_process_that_has_not_begun_the_bar_is_not_named(cell, clock):
    cell.stream(0, "stdout", keras(3))
    assert shown(cell) == []
    clock[0] += HOLD_S
    assert [processes for processes, _ in shown(cell)] == [(0,)]
