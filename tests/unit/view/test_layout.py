"""A model's layout in characters: whole paths, flagged variables first, rules that match nothing."""

import pytest
from msgspec import structs

from nbdist.contract.calls.inspection import ModelFound
from nbdist.contract.wire import decode, encode
from nbdist.view.shards import DIFFERS, MISSED, Layout, flag, layout_text
from nbdist.view.status import DeviceNames
from tests.builders import golden


@pytest.fixture
def snapshot():
    return golden.snapshot("keras_model")


@pytest.fixture
def model(snapshot):
    return snapshot.models[0]


def lines(snapshot, model, distributions=None):
    shown = snapshot.distributions if distributions is None else distributions
    meshes = {mesh.id: mesh for mesh in snapshot.meshes}
    names = DeviceNames(device.key for device in snapshot.devices)
    return layout_text(model, shown, meshes, names).splitlines()


def test_what_is_set_stands_above_flagged_rows_first_and_what_matches_nothing_below(
    snapshot, model
):
    found = lines(snapshot, model)
    assert found[0].startswith("model  Sequential, 16 variables, ")
    assert found[1].startswith("distribution ModelParallel  mesh batch=2 × model=2")
    assert found[-3:] == [
        f"! {MISSED}",
        "rule that matches nothing:",
        "  .*attention.*/query/kernel",
    ]
    rows = found[3 : 3 + len(model.variables)]
    assert [row[0] for row in rows] == ["!"] * 3 + [" "] * 13
    assert {row[1:].split()[0] for row in rows} == {one.path for one in model.variables}
    (row,) = [row for row in rows if " sequential/dense/kernel " in row]
    assert [cell.strip() for cell in row.split("  ") if cell.strip()] == [
        *("sequential/dense/kernel", "f32[512, 2048]", "trainable", ".*dense.*/kernel"),
        *("P(None, 'model')", "P(None, 'model')", "2 MB"),
    ]


def test_without_rules_there_are_no_columns_for_them(snapshot, model):
    plain = [structs.replace(one, rule=None, axes=None, missed=False) for one in model.variables]
    found = lines(snapshot, structs.replace(model, variables=tuple(plain), unmatched=()), [])
    assert found[1] == "no distribution is set"
    assert found[2].split() == ["variable", "type", "group", "spec", "per", "device"]
    assert len(found) == 3 + len(plain)


def test_a_variable_that_is_not_laid_out_as_its_rule_asks_is_flagged(snapshot, model):
    kernel = next(one for one in model.variables if one.path == "sequential/dense/kernel")
    assert flag(kernel) is None
    # Keras leaves out what is whole at the end.
    assert flag(structs.replace(kernel, axes=("model",), spec=(("model",), ()))) is None
    assert (
        flag(structs.replace(kernel, spec=((), ())))
        == flag(structs.replace(kernel, spec=None))
        == DIFFERS
    )
    assert flag(structs.replace(kernel, missed=True, axes=None)) == MISSED
    found = lines(snapshot, structs.replace(model, variables=(structs.replace(kernel, spec=None),)))
    assert found[3].startswith("~  sequential/dense/kernel") and "no mesh" in found[3]
    assert f"~ {DIFFERS}" in found


def test_a_problem_and_variables_left_out_are_reported(snapshot, model):
    problem = structs.replace(snapshot.distributions[0], problem="It is.")
    found = lines(snapshot, structs.replace(model, variables_omitted=3), [problem])
    assert "It is." in found and "… and 3 more variables" in found


def test_an_engine_s_answer_is_read_and_shown(snapshot, model):
    found = ModelFound(model=model, meshes=snapshot.meshes, distributions=snapshot.distributions)
    layout = Layout.of(decode(ModelFound, encode(found)), snapshot)
    assert repr(layout) == layout.text() == "\n".join(lines(snapshot, model))
