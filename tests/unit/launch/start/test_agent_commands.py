"""Variables and folders of modules that processes get on other machines, beside those they have here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from nbdist.agent import reexec as anew
from nbdist.agent.sync import put_on_path
from nbdist.errors import OptionError
from nbdist.launch.model.start_options import environment_of
from nbdist.launch.start.agent_commands import forwarded


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


def test_a_name_alone_forwards_the_value_it_has_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "a=b")
    monkeypatch.delenv("NOT_SET", raising=False)
    assert environment_of(["HUB_TOKEN", "A=", "B=1=2"]) == {
        "HUB_TOKEN": "a=b",
        "A": "",
        "B": "1=2",
    }
    with pytest.raises(OptionError, match="--env NOT_SET: this kernel has no such variable"):
        environment_of(["NOT_SET"])


def test_variables_that_count_at_the_start_only_are_known_to_come_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/a")
    assert anew.too_late({"PYTHONPATH": "/b"})
    assert anew.too_late({"LD_PRELOAD": "x"})
    assert not anew.too_late({"PYTHONPATH": "/a", "JAX_ENABLE_X64": "1"})
    monkeypatch.setattr(sys, "argv", ["host", anew.OPTION, "3"])
    assert not anew.too_late({"PYTHONPATH": "/b"})


@pytest.fixture
def clean_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/others")
    yield


def test_folders_of_modules_come_first_also_for_what_a_process_starts(clean_path: None) -> None:
    put_on_path(["/one", "/two"])
    assert sys.path[:2] == ["/one", "/two"]
    assert os.environ["PYTHONPATH"] == os.pathsep.join(["/one", "/two", "/others"])
    put_on_path([])
    assert sys.path[:2] == ["/one", "/two"]
