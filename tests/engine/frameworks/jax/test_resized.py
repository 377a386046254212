"""The sizes of a mesh over another number of devices."""

import pytest

from nbdist.engine.frameworks.jax.resized import resized


@pytest.mark.parametrize(
    ("before", "devices", "after"),
    [
        ({"data": 4, "model": 2}, 6, {"data": 3, "model": 2}),
        ({"data": 4, "model": 2}, 16, {"data": 8, "model": 2}),
        ({"data": 4, "model": 2}, 8, {"data": 4, "model": 2}),
        ({"data": 4, "model": 2}, 2, {"data": 1, "model": 2}),
        ({"data": 2, "model": 4}, 6, {"data": 2, "model": 3}),
        ({"x": 8}, 5, {"x": 5}),
        ({"x": 2, "y": 2, "z": 2}, 6, None),
        ({"x": 2, "y": 2, "z": 2}, 4, {"x": 1, "y": 2, "z": 2}),
    ],
)
def test_the_first_axis_that_can_takes_another_size(before, devices, after):
    assert resized(before, devices) == after
