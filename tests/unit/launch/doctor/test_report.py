"""What the doctor prints, its exit code, and how it is asked."""

from __future__ import annotations

import json
import re

import pytest

import nbdist.magics.options as options
from nbdist import cli
from nbdist.contract.checkup import OldPython
from nbdist.errors import OptionError
from nbdist.launch.doctor.finding import Examination, Examined, Finding, Needs
from nbdist.launch.doctor.judge import CHECKS, judge
from tests.builders.examined import examined, facts, kernel
from tests.places import ROOT

DOCUMENT = (ROOT / "docs" / "how-to" / "doctor.md").read_text(encoding="utf-8")

NO_SSH = Finding(
    severity="error", host="h22", what="ssh does not work", where="ssh to h22", do="ssh h22"
)


FULL = {"path": "/tmp", "free": 0, "error": "E", "instead": None}


def report(*everyone: Examined) -> Examination:
    findings = judge(everyone, kernel=kernel(), needs=Needs())
    return Examination(everyone=everyone, findings=findings, seconds=0.84)


def test_a_host_that_is_well_is_one_line() -> None:
    shown = report(examined("h1"), examined("h2")).text()
    assert shown == (
        "h1  ok  Python 3.11.7, nbdist 0.2.0, jax 0.10.2, keras 3.15.1, tensorflow 2.21.0, 60 GB free\n"
        "h2  ok  Python 3.11.7, nbdist 0.2.0, jax 0.10.2, keras 3.15.1, tensorflow 2.21.0, 60 GB free\n"
        "2 hosts examined in 0.8 s"
    )


def test_findings_come_below_with_what_where_and_what_to_type() -> None:
    reported = facts(variables={"http_proxy": "p"}, temporary=FULL)
    shown = report(
        examined(reported=reported), examined("h22", reported={}, facts=None, trouble=NO_SSH)
    ).text()
    lines = shown.splitlines()
    assert lines[0].startswith("h1   1 error, 1 warning  Python 3.11.7, ")
    assert lines[1] == "h22  1 error"
    assert lines[2:] == [
        "",
        "error: h1: no file can be written in /tmp: E",
        "  where: /tmp on h1",
        "  type:  ssh h1 du -xh --max-depth=1 /tmp",
        "         and make room; or set TMPDIR there",
        "",
        "error: h22: ssh does not work",
        "  where: ssh to h22",
        "  type:  ssh h22",
        "",
        "warning: h1: http_proxy set: processes may look for each other through the proxy, and time out",
        "  where: environment that ssh h1 gives",
        "  type:  %dist_init --env http_proxy=",
        "",
        "2 hosts examined in 0.8 s",
    ]


def test_only_errors_make_the_exit_code_one() -> None:
    warned = examined(reported=facts(variables={"http_proxy": "p"}))
    assert report(warned).exit_code == 0
    assert report(examined("h22", facts=None, trouble=NO_SSH)).exit_code == 1


def test_json_holds_findings_and_facts_by_host() -> None:
    everyone = (examined("h1"), examined("h22", facts=None, trouble=NO_SSH))
    reported = json.loads(report(*everyone).json())
    assert (reported["ok"], reported["seconds"]) == (False, 0.84)
    assert reported["findings"] == [
        {
            "severity": "error",
            "host": "h22",
            "what": "ssh does not work",
            "where": "ssh to h22",
            "do": "ssh h22",
        }
    ]
    assert reported["hosts"]["h1"]["python"] == [3, 11, 7]
    assert reported["hosts"]["h22"] is None


def test_a_python_too_old_to_tell_more_is_shown_by_its_version() -> None:
    reported = OldPython(python=(2, 7, 18), executable="python")
    found = report(examined(reported=reported))
    assert found.text().startswith("h1  1 error  Python 2.7.18\n")
    assert json.loads(found.json())["hosts"]["h1"] == {"python": [2, 7, 18], "executable": "python"}


def test_the_command_examines_this_machine_and_ends_with_zero(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["ok"] is True
    assert reported["hosts"]["localhost"]["packages"]["nbdist"] is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "h1:0"], "'h1:0' asks for no process"),
        (["--hosts", "h1", "--hosts-file", "f"], "both name the hosts"),
        (["--hosts-file", "/nowhere"], "--hosts-file /nowhere: cannot be read"),
        (["--remote-python", "python3"], "name them with --hosts"),
        (["--hosts", "h1", "--ssh-config", "/nowhere"], "--ssh-config /nowhere"),
    ],
)
def test_options_that_cannot_be_read_end_with_two_and_name_the_option(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["doctor", *words]) == 2
    assert said in capsys.readouterr().err
    with pytest.raises(
        OptionError, match=r"%dist_doctor has no option '--hots'\. Did you mean --hosts"
    ):
        options.parser("dist_doctor").parse("--hots h1")


def test_the_options_say_what_is_to_be_started() -> None:
    asked = options.parser("dist_doctor").parse(
        "--hosts ada@h1:2 --framework keras --backend tensorflow"
    )
    arguments = options.doctor_arguments(asked)
    assert arguments["placement"].hosts[0].processes == 2
    assert arguments["needs"] == Needs(framework="keras", backend="tensorflow")


def test_the_document_has_a_row_for_every_check_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (?:error|warning|error, warning) \|$", DOCUMENT, re.M)
    assert rows == ["ssh", *(check.__name__ for check in CHECKS)]
