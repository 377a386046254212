"""What a start tells each process, from the launch side of a framework to its engine's side."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nbdist.contract.calls import from_text, to_text
from nbdist.contract.calls.engine import Initialize
from nbdist.contract.wire import decode, encode
from nbdist.engine.frameworks import framework_named as on_an_engine
from nbdist.errors import WireError
from nbdist.launch.model.framework import framework_named, framework_names, meet
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import make_plan
from tests.builders.places import places_of


@pytest.mark.parametrize("initialize", [True, False])
@pytest.mark.parametrize("name", framework_names())
def test_an_engine_reads_each_stage_as_it_was_sent(
    name: str, initialize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("KERAS_BACKEND", "TF_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    planned = make_plan(StartOptions(processes=2, platform="cpu", framework=name))
    found = replace(planned, initialize=initialize)
    for process in found.processes:
        for stage in framework_named(name).stages(found, process, meet(found, places_of(found))):
            text = to_text(Initialize(stage=encode(stage)))
            arrived = from_text(Initialize, text)
            read = decode(on_an_engine(name).stage, arrived.stage)
            assert type(read) is type(stage)
            # What another library is given may have lists in place of tuples.
            assert json.dumps(encode(read)) == json.dumps(encode(stage))


@pytest.mark.parametrize("name", framework_names())
def test_a_stage_of_another_shape_is_refused(name: str) -> None:
    with pytest.raises(WireError, match="contains unknown field"):
        decode(on_an_engine(name).stage, {"kind": "devices", "of": "another time"})
