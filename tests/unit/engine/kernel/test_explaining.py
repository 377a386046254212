"""A call taken apart, so that its function and arguments are evaluated and it is not run."""

from __future__ import annotations

import pytest

from nbdist.engine.kernel.engine_calls import parts
from nbdist.errors import ArrayError


@pytest.mark.parametrize(
    ("expression", "apart"),
    [
        ("step()", (1, (), {})),
        (" steps[0](x, *more, a=y, **rest) ", (1, (2, 3, 4), {"a": 5, "b": 6})),
        ("steps[0](dict, a=1)", (1, (7,), {"a": 1})),
    ],
)
def test_function_and_arguments_stand_apart(expression, apart):
    names = {"x": 2, "more": (3, 4), "y": 5, "rest": {"b": 6}, "step": 1, "steps": [1], "dict": 7}
    assert eval(parts(expression), names) == apart


@pytest.mark.parametrize("expression", ["step", "step(x) + 1", "step(", ""])
def test_what_is_no_call_is_refused(expression):
    with pytest.raises(ArrayError, match=r"is no call|is no expression"):
        parts(expression)
