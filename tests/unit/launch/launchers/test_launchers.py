"""What several launchers need: further options of a program, and the variables that agents elsewhere get."""

from __future__ import annotations

import pytest

from nbdist.errors import OptionError
from nbdist.launch.launchers import forwarded, further_options


def further(*lines: str) -> tuple[str, ...]:
    return further_options(
        lines,
        parameter="slurm_options",
        example="an option of srun, such as --gres=gpu:4",
        ours={("-n", "--ntasks"): "processes", ("--pty",): "there is no terminal"},
        is_one=lambda word, names: word in names,
    )


def test_the_words_of_a_line_are_those_of_a_shell() -> None:
    assert further("--mem 4G --comment='two words'", "-x") == (
        "--mem",
        "4G",
        "--comment=two words",
        "-x",
    )
    assert further() == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "expected an option of srun, such as --gres=gpu:4."),
        ("gres=gpu:4", "expected an option of srun, such as --gres=gpu:4."),
        ("--comment='two", "No closing quotation; expected an option of srun"),
        ("--mem 4G -n 4", "--slurm-option -n: nbdist gives it itself; use "),
        ("--pty", "nbdist gives it itself; there is no terminal."),
    ],
)
def test_what_cannot_be_passed_on_is_refused(line: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as raised:
        further(line)
    assert str(raised.value).startswith("--slurm-option ")


def test_variables_of_frameworks_are_forwarded_and_secrets_are_not() -> None:
    kept = {"JAX_ENABLE_X64": "1", "XLA_FLAGS": "--x", "JAX_LEGACY_PRNG_KEY": "allow", "TF_X": ""}
    left = {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "s",
        "TF_API_TOKEN": "s",
        "KERAS_HUB_PASSWORD": "s",
        "TPU_API_KEY": "s",
        "TF_CONFIG": "{}",
        "JAX_LOCAL_DEVICE_IDS": "0",
        "TPU_VISIBLE_DEVICES": "0",
    }
    assert forwarded({**kept, **left}) == kept
