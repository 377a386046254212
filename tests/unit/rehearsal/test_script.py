"""`nbdist rehearse`, with a process that stands in for the one that compiles."""

from __future__ import annotations

import json
import sys

import pytest

from nbdist import cli
from nbdist.contract.program import Compiled, Program, to_line
from nbdist.contract.wire import encode
from nbdist.rehearsal import libtpu, runs

FITS, NOT = Program(name="jit_step", fits=True), Program(name="jit_big", fits=False)


@pytest.fixture
def process(monkeypatch, tmp_path):
    """A program in place of `python -m nbdist.rehearsal.rehearsal`: writes programs and ends as asked."""

    def make(programs=(), then="pass"):
        lines = "".join(to_line(Compiled(program=one)) for one in programs)
        body = (
            "import os, signal, sys, time\n"
            "place = sys.argv[sys.argv.index('--report') + 1]\n"
            "mesh = sys.argv[sys.argv.index('--mesh') + 1] if '--mesh' in sys.argv else ''\n"
            f"open(place, 'w').write({lines!r})\n{then}\n"
        )
        stand_in = tmp_path / "stand_in"
        stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "body.py"} "$@"\n')
        stand_in.chmod(0o755)
        (tmp_path / "body.py").write_text(body)
        monkeypatch.setattr(runs.sys, "executable", str(stand_in))

    monkeypatch.setattr(libtpu, "find", lambda: libtpu.Libtpu(path=tmp_path, version=None))
    return make


@pytest.fixture
def run(tmp_path, capfd):
    """Run the command on a script; return its exit code, its standard output and its standard error."""
    train = tmp_path / "train.py"
    train.touch()

    def called(*options):
        code = cli.main(["rehearse", str(train), "--topology", "v5e:4x4", *options])
        return code, *capfd.readouterr()

    return called


@pytest.mark.parametrize(
    ("programs", "then", "code", "reason"),
    [
        ([FITS], "pass", 0, ""),
        ([FITS, NOT], "pass", 1, ""),
        ([FITS, NOT], "sys.exit(2)", 1, "did not come to its end"),
        ([FITS], "sys.exit(2)", 2, "did not come to its end"),
        ([], "pass", 2, "compiled no program"),
        ([FITS], "os.kill(os.getpid(), signal.SIGKILL)", 2, "memory to compile"),
        ([FITS], "os.kill(os.getpid(), signal.SIGSEGV)", 2, "by signal 11"),
        ([FITS], "sys.exit(7)", 2, "exit code 7"),
    ],
)
def test_the_exit_code_says_whether_all_fit(process, run, programs, then, code, reason):
    process(programs, then)
    found, out, said = run("--json")
    assert found == code
    assert json.loads(out) == {"exit_code": code, "programs": [encode(one) for one in programs]}
    assert reason in said and bool(said) == bool(reason)


@pytest.mark.parametrize(
    ("of_the_second", "code"), [("pass", 0), ("print(7, file=sys.stderr); sys.exit(2)", 2)]
)
def test_with_several_meshes_the_highest_code_counts(process, run, of_the_second, code):
    process([FITS], f"print(mesh)\nif mesh == 'a=4,b=4': {of_the_second}")
    meshes = ("--mesh", "a=16", "--mesh", "a=4,b=4")
    found, out, said = run(*meshes, "--json")
    plain = json.loads(out)
    assert (found, plain["exit_code"]) == (code, code)
    assert [one["mesh"] for one in plain["rehearsals"]] == ["a=16", "a=4,b=4"]
    assert [one["failure"] for one in plain["rehearsals"]] == ["", "7" if code else ""]
    assert "a=16: ended with 1 program" in said
    assert "── a=16\na=16\n" in run(*meshes, "--programs")[1]


def test_of_a_mesh_that_fails_after_a_program_that_does_not_fit_the_latter_counts(process, run):
    process([NOT], "sys.exit(2)")
    assert run("--mesh", "a=16", "--mesh", "a=4,b=4")[0] == 1


@pytest.mark.parametrize("then", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN); "])
def test_a_script_that_takes_too_long_is_ended(process, run, monkeypatch, then):
    monkeypatch.setattr(runs, "GRACE_S", 0.5)
    process([FITS], f"{then}time.sleep(600)")
    code, _, said = run("--timeout", "2")
    assert code == 2 and "within 2 s (--timeout)" in said


def test_what_a_script_prints_is_no_json(process, run):
    process([FITS], "print('of the script')")
    assert "of the script" in run()[1]
    assert "of the script" in run("--json")[2]


@pytest.mark.parametrize(
    "arguments",
    [["--topology", "v5e:4x4"], ["x.py"], ["--topology", "v9", "x.py"], ["--topology", "v5e-8", "x.py"]],
)  # fmt: skip
def test_bad_options_are_code_2(arguments, capsys):
    assert cli.main(["rehearse", *arguments]) == 2
    assert capsys.readouterr().err.startswith("nbdist rehearse: ")


def test_what_follows_two_dashes_is_the_scripts(process, run, tmp_path):
    process([FITS], f"open({str(tmp_path / 'seen')!r}, 'w').write(repr(sys.argv[-3:]))")
    assert run("--", "--mesh", "x")[0] == 0
    assert (tmp_path / "seen").read_text() == repr([str(tmp_path / "train.py"), "--mesh", "x"])
