"""The last words of a process that is gone."""

from __future__ import annotations

from pathlib import Path

from nbdist.launch.model.happenings import ProcessExit
from nbdist.machine.processes import tail

CHATTER = (
    "2026-01-01 00:00:00.000 [Engine.0] WARNING | debugpy_stream undefined\n"
    "2026-01-01 00:00:00.000 [Nanny.1] Nanny watching parent pid 7.\n"
    "[Gloo] Rank 1 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\n"
)


def write(folder: Path, text: str) -> Path:
    path = folder / "process-0.log"
    path.write_text(text)
    return path


def test_the_last_twenty_lines_without_chatter(tmp_path: Path) -> None:
    text = CHATTER + "".join(f"line {i}\n" for i in range(50)) + CHATTER
    assert tail(write(tmp_path, text)) == tuple(f"line {i}" for i in range(30, 50))


def test_what_libraries_say_of_themselves_is_no_word_of_the_user(tmp_path: Path) -> None:
    text = (
        "2026-11-26 01:45:23.174 [Nanny.1] Starting kernel nanny for engine 1, pid=22547\n"
        "[Gloo] Rank 1 is connected to 2 peer ranks. Expected number of connected peer ranks is : 2\n"
        "no room\n"
        "2026-11-26 01:45:24.922 [Nanny.1] Pipe closed, parent 22547 has status: None\n"
    )
    assert tail(write(tmp_path, text)) == ("no room",)


def test_the_stack_below_a_failed_check_leaves_room_for_the_check(tmp_path: Path) -> None:
    stack = "".join(f"    @     0x7f{i:04x}  f()\n" for i in range(60))
    text = f"F0101 check failed\n*** Check failure stack trace: ***\n{stack}"
    assert tail(write(tmp_path, text)) == ("F0101 check failed",)


def test_a_fatal_signal_keeps_what_was_written_before_it(tmp_path: Path) -> None:
    stack = "".join(f'  File "x.py", line {i} in f\n' for i in range(60))
    text = f"F0101 check failed: a == b\nFatal Python error: Aborted\n\nThread 0x1:\n{stack}\n"
    text += f"Current thread 0x2 (most recent call first):\n{stack}\nExtension modules: numpy\n"
    words = tail(write(tmp_path, text))
    assert words[0] == "F0101 check failed: a == b"
    assert words[1] == "Fatal Python error: Aborted"
    assert words[2].startswith("Current thread")
    assert len(words) <= 20


def test_the_end_of_a_process_before_in_the_same_log_is_not_that_of_this_one(
    tmp_path: Path,
) -> None:
    before = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x2:\n  File x\n"
    path = write(tmp_path, before + "what this one wrote\n")
    assert tail(path)[0].startswith("Fatal Python error")  # where it is not known
    assert tail(path, start=len(before)) == ("what this one wrote",)


def test_a_missing_log_is_no_words(tmp_path: Path) -> None:
    assert tail(tmp_path / "none.log") == ()


def test_an_exit_says_signal_and_out_of_memory() -> None:
    def end(code: int, *, oom: bool) -> str:
        return str(ProcessExit(process_id=1, pid=2, code=code, oom=oom, time=0.0, last_lines=()))

    assert end(-9, oom=True) == "killed by signal 9 (SIGKILL), out of memory"
    assert end(-11, oom=False) == "killed by signal 11 (SIGSEGV)"
    assert end(3, oom=False).endswith("exit code 3")
