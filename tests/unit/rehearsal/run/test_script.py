"""`nbdist rehearse`, with a process that stands in for the one that compiles."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from nbdist import cli
from nbdist.contract.program import Compiled, Program, to_line
from nbdist.contract.wire import encode
from nbdist.errors import OptionError
from nbdist.rehearsal.plan import libtpu
from nbdist.rehearsal.run import script
from nbdist.rehearsal.run.asked import how_it_ended, read_asked

FITS, NOT = Program(name="jit_step", fits=True), Program(name="jit_big", fits=False)


@pytest.fixture
def process(monkeypatch, tmp_path):
    """What runs in place of `python -m nbdist.rehearsal.pod`: writes programs and ends as asked."""

    def make(programs=(), then="pass"):
        lines = "".join(to_line(Compiled(program=one)) for one in programs)
        body = (
            "import os, signal, sys, time\n"
            "place = sys.argv[sys.argv.index('--report') + 1]\n"
            f"open(place, 'w').write({lines!r})\n{then}\n"
        )
        stand_in = tmp_path / "stand_in"
        stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "body.py"} "$@"\n')
        stand_in.chmod(0o755)
        (tmp_path / "body.py").write_text(body)
        monkeypatch.setattr(script.sys, "executable", str(stand_in))

    monkeypatch.setattr(libtpu, "find", lambda: libtpu.Libtpu(path=tmp_path, version=None))
    return make


@pytest.fixture
def train(tmp_path):
    file = tmp_path / "train.py"
    file.touch()
    return file


def run(train, **changed):
    asked = {"pod": read_asked("v5e:4x4", None), "value": None, "timeout_s": None}
    return script.run_script(train, [], **{**asked, **changed})


@pytest.mark.parametrize(
    ("programs", "then", "code", "reason"),
    [
        ([FITS], "pass", 0, ""),
        ([FITS, NOT], "pass", 1, ""),
        ([FITS, NOT], "sys.exit(2)", 1, ""),
        ([FITS], "sys.exit(2)", 2, ""),
        ([], "pass", 2, "has compiled no program"),
        (
            [FITS],
            "os.kill(os.getpid(), signal.SIGKILL)",
            2,
            "not enough memory to compile|had not enough memory",
        ),
        ([FITS], "os.kill(os.getpid(), signal.SIGSEGV)", 2, "ended by signal 11"),
        ([FITS], "sys.exit(7)", 2, "with exit code 7"),
    ],
)
def test_the_exit_code_says_whether_all_fit(process, train, programs, then, code, reason):
    process(programs, then)
    outcome = run(train)
    assert (outcome.exit_code, list(outcome.programs)) == (code, programs)
    assert bool(outcome.reason) == bool(reason)
    if reason:
        assert any(part in " ".join(outcome.reason.split()) for part in reason.split("|"))


def test_a_script_that_takes_too_long_is_ended(process, train):
    process([FITS], "time.sleep(600)")
    outcome = run(train, timeout_s=2)
    assert outcome.exit_code == 2
    assert "did not end within 2 s (--timeout)" in outcome.reason


def test_a_script_that_does_not_stop_is_killed(process, train, monkeypatch):
    monkeypatch.setattr(script, "GRACE_S", 0.5)
    process([FITS], "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)")
    assert "--timeout" in run(train, timeout_s=2).reason


def test_a_script_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(OptionError, match="is no file"):
        run(tmp_path / "gone.py")


def test_json_is_all_of_standard_output(process, train, capfd):
    process([FITS, NOT], "print('of the script')")
    code = cli.main(["rehearse", "--json", "--topology", "v5e:4x4", str(train)])
    out, err = capfd.readouterr()
    assert (code, json.loads(out)) == (
        1,
        {"exit_code": 1, "programs": [encode(FITS), encode(NOT)]},
    )
    assert "of the script" in err


@pytest.mark.parametrize(
    "arguments", [["--topology", "v5e:4x4"], ["train.py"], ["--topology", "v9", "train.py"]]
)
def test_bad_options_are_code_2(arguments, capsys):
    assert cli.main(["rehearse", *arguments]) == 2
    assert capsys.readouterr().err.startswith("nbdist rehearse: ")


def test_what_follows_two_dashes_is_the_scripts(process, train, tmp_path):
    process([FITS], f"open({str(tmp_path / 'seen')!r}, 'w').write(repr(sys.argv[-3:]))")
    assert cli.main(["rehearse", str(train), "--topology", "v5e:4x4", "--", "--mesh", "x"]) == 0
    assert (tmp_path / "seen").read_text() == repr([str(train), "--mesh", "x"])


def test_how_a_process_ended_is_said():
    assert "killed (signal 9)" in how_it_ended(-signal.SIGKILL)
    assert how_it_ended(1) == "The rehearsal's process ended with exit code 1."


@pytest.mark.parametrize(
    "said", ["Could not mmap: Cannot allocate memory [12]", "RAW: mmap error: 12", "std::bad_alloc"]
)
def test_a_compiler_that_gets_no_memory_is_named(said):
    for number in (signal.SIGABRT, signal.SIGSEGV):
        assert "was given no more memory to compile" in how_it_ended(-number, f"F1125 {said}\n at")
        assert "memory to compile" not in how_it_ended(-number, "Check failed: x")
    assert "memory" not in how_it_ended(1, said)
