"""The extension of JupyterLab, as JupyterLab's server reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jupyterlab_server.config import get_page_config

from tests.places import ROOT

OTHER = "ipyparallel-labextension"


def _disabled(extensions: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, bool]) -> bool:
    """Return whether a server with nbdist's extension disables ipyparallel's.

    Args:
      extensions: An empty folder.
      monkeypatch: Of the test.
      chosen: The extensions that a person has disabled (true) or enabled (false).
    """
    package = json.loads((ROOT / "labextension" / "package.json").read_text(encoding="utf-8"))
    package["jupyterlab"]["_build"] = {"load": "static/remoteEntry.js"}
    folder = extensions / "nbdist-labextension"
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps(package))
    config = extensions / "labconfig"
    config.mkdir()
    (config / "page_config.json").write_text(json.dumps({"disabledExtensions": chosen}))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(extensions))
    return OTHER in get_page_config([str(extensions)])["disabledExtensions"]


def test_ipyparallels_panel_whose_engines_are_no_session_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _disabled(tmp_path, monkeypatch, {})


def test_who_enables_ipyparallels_panel_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _disabled(tmp_path, monkeypatch, {OTHER: False})
