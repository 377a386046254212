"""How a notebook shows what a rehearsal's process sends, and what `%%dist_rehearse` refuses."""

from __future__ import annotations

from unittest import mock

import pytest

from nbdist.contract.page import PROGRAM_MIME_TYPE
from nbdist.errors import OptionError
from nbdist.rehearsal.cells import Rehearsing, show
from tests.builders.golden import golden


@pytest.fixture
def content():
    plain = golden("compiled_step")["snapshot"]
    data = {"text/plain": plain["program"]["text"], PROGRAM_MIME_TYPE: plain}
    return {"data": data, "metadata": {}}


def test_a_terminal_has_the_text_of_a_program(content, capsys):
    show("display_data", content, in_notebook=False)
    assert capsys.readouterr().out == content["data"]["text/plain"] + "\n"


def test_a_notebook_has_a_picture_of_it_and_a_still_one(content):
    with (
        mock.patch("IPython.display.display") as display,
        mock.patch("nbdist.view.widget.View") as view,
    ):
        show("display_data", content, in_notebook=True)
    assert view.call_args.args[0].session == "program jit_step"
    assert display.call_args_list[0].args == (view.return_value,)
    bundle = display.call_args_list[1].args[0]
    assert bundle["text/plain"] == content["data"]["text/plain"]
    assert "jit_step: fits" in bundle["text/html"]


def test_all_else_is_shown_as_it_is():
    other = {"data": {"text/plain": "4"}, "metadata": {}}
    with mock.patch("nbdist.rehearsal.cells.display") as display:
        show("display_data", other, in_notebook=True)
    display.assert_called_once_with({"text/plain": "4"}, raw=True, metadata={})


def test_the_first_cell_names_a_pod():
    with pytest.raises(OptionError, match="--topology is missing"):
        Rehearsing().run("1", topology=None, meshes=())
