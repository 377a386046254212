"""Programs that are compiled again: which are others than before a repair."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nbdist.engine.frameworks.jax.step.programs import Recompiled, described

x = np.ones((4, 4), np.float32)


def text_of(function, *arguments):
    jax.clear_caches()
    return jax.jit(function).lower(*arguments).compile().as_text()


def scaled(scale):
    def f(x):
        return jnp.sin(x @ x) * scale

    return f


def test_the_same_program_is_itself_wherever_it_is_called_from():
    f, known = scaled(2.0), Recompiled()
    assert not known.note(f, 1, text_of(f, x), 0)

    def elsewhere():
        return text_of(f, x)

    assert not known.note(f, 1, elsewhere(), 1)


@pytest.mark.parametrize(
    ("arguments", "generation", "expected"),
    [(1, 1, True), (1, 0, False), (2, 1, False), (0, 1, False)],
    ids=[
        "after a repair",
        "without one",
        "of other arguments",
        "of arguments that nothing tells apart",
    ],
)
def test_another_program_after_a_repair_is_found_once(arguments, generation, expected):
    f, known = scaled(2.0), Recompiled()
    known.note(f, 1, text_of(f, x), 0)
    other = text_of(scaled(3.0), x)
    assert known.note(f, arguments, other, generation) == expected
    assert not known.note(f, arguments, other, generation)


def test_functions_are_told_apart_and_not_kept():
    known = Recompiled()
    f, g = scaled(2.0), scaled(3.0)
    known.note(f, 1, text_of(f, x), 0)
    assert not known.note(g, 1, text_of(g, x), 1)
    del f, g
    assert not known._known
    assert not known.note([], 1, "", 0)


def test_arguments_are_told_apart_by_shapes_static_values_and_structure():
    these = [(x,), (jnp.ones(3),), (np.ones(3, np.float32),), (x, 1), (x, 2), ({"a": x},), ([x],)]
    assert len({described(one) for one in these}) == len(these)
    assert described((x, 1)) == described((x + 1, 1))
    assert described((x, {1, 2})) == 0
