"""The use of a lost array says which it is, why it was lost, and where it was made."""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import IPython
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from IPython.core import ultratb

from nbdist.engine.frameworks.jax import private
from nbdist.engine.frameworks.jax.repair import repair
from nbdist.engine.frameworks.jax.repair.repair import LostArrays
from nbdist.errors import LostArrayError

TEXT = "w was lost with process 1 in cell 4: a shard was on no other process. Create w again."


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> Iterator[LostArrays]:
    """The lost arrays of a process; afterwards JAX says again what it says by itself."""
    kind = private.ARRAY_IMPL.get()
    monkeypatch.setattr(kind, "_check_if_deleted", kind._check_if_deleted)  # type: ignore[union-attr]
    yield LostArrays()


def deleted(values: Any = (1.0, 2.0)) -> jax.Array:
    array = jnp.asarray(np.array(values))
    array.delete()
    return array


def error_of(use: Callable[[], object]) -> BaseException:
    with pytest.raises(RuntimeError) as raised:
        use()
    return raised.value


def doubled(x: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf * 2, x)


USES: dict[str, Callable[[Any], object]] = {
    "computed with": lambda w: w + 1,
    "taken to NumPy": np.asarray,
    "printed": str,
    "shown": repr,
    "read": lambda w: w.tolist(),
    "cut": lambda w: w[0],
    "in a jitted call": jax.jit(doubled),
    "in a container of a jitted call": lambda w: jax.jit(doubled)({"a": [w]}),
    "in a container": lambda w: doubled({"a": [w]}),
    "in a gradient": lambda w: jax.grad(lambda x: x.sum())(w),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_whatever_it_is_used_for_the_error_says_how_it_was_lost(
    arrays: LostArrays, use: Callable[[Any], object]
) -> None:
    w = deleted()
    assert not isinstance(error_of(lambda: use(w)), LostArrayError)
    arrays.note({"w": w}, {"w": TEXT})
    error = error_of(lambda: use(w))
    assert (type(error), str(error)) == (LostArrayError, TEXT)
    assert error.__suppress_context__, "JAX's own error says less"


def test_an_array_in_a_container_is_known_by_its_path(arrays: LostArrays) -> None:
    params = {"dense": [deleted(), deleted()]}
    texts = {f"params['dense'][{k}]": f"{k} was lost" for k in (0, 1)}
    arrays.note({"params": params}, texts)
    assert [str(error_of(lambda one=one: one + 1)) for one in params["dense"]] == [
        "0 was lost",
        "1 was lost",
    ]


def test_a_typed_key_is_known_though_jax_uses_the_array_that_it_holds(arrays: LostArrays) -> None:
    key = jax.random.key(0)
    private.base_array(key).delete()
    arrays.note({"key": key}, {"key": TEXT})
    assert str(error_of(lambda: jax.random.normal(key))) == TEXT
    assert str(error_of(lambda: jax.jit(jax.random.normal)(key))) == TEXT


def test_an_array_that_lives_is_not_noted(arrays: LostArrays) -> None:
    w = jnp.ones(2)
    arrays.note({"w": w}, {"w": TEXT})
    w.delete()
    assert TEXT not in str(error_of(lambda: w + 1))


def test_arrays_that_were_deleted_or_donated_keep_the_error_of_jax(arrays: LostArrays) -> None:
    w, other, donated = deleted(), deleted(), jnp.ones(2)
    before = str(error_of(lambda: other + 1))
    arrays.note({"w": w, "other": other}, {"w": TEXT})
    jax.jit(lambda x: x * 2, donate_argnums=0)(donated).block_until_ready()
    assert donated.is_deleted()
    for one in (other, donated):
        error = error_of(lambda one=one: one + 1)
        assert not isinstance(error, LostArrayError)
        assert str(error) == before
    assert (jnp.ones(2) + 1).tolist() == [2.0, 2.0]


def test_one_at_whose_id_a_lost_array_was_is_not_taken_for_it(
    arrays: LostArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "id", lambda _: 1, raising=False)  # all have the same one
    w, other = deleted(), deleted()
    arrays.note({"w": w}, {"w": TEXT})
    assert not isinstance(error_of(lambda: other + 1), LostArrayError)
    arrays.note({"other": other}, {"other": "other was lost"})
    gone = weakref.ref(w)
    del w
    assert gone() is None, "it is not kept for its error"
    assert str(error_of(lambda: other + 1)) == "other was lost"


def test_of_a_lost_array_that_is_gone_nothing_is_kept(arrays: LostArrays) -> None:
    w = deleted()
    arrays.note({"w": w}, {"w": TEXT})
    assert len(arrays._known) == 1
    del w
    assert len(arrays._known) == 0


def test_noted_once_more_the_newest_sentence_is_said(arrays: LostArrays) -> None:
    w = deleted()
    original = private.ARRAY_IMPL.get()._check_if_deleted  # type: ignore[union-attr]
    arrays.note({"w": w}, {"w": "before"})
    arrays.note({"w": w}, {"w": TEXT})
    assert str(error_of(lambda: w + 1)) == TEXT
    checked: Any = private.ARRAY_IMPL.get()._check_if_deleted  # type: ignore[union-attr]
    assert checked.__wrapped__ is original, "one around JAX's own, not one more after each repair"


@pytest.fixture
def as_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """IPython shows tracebacks, from which JAX hides its frames."""
    plain = ultratb.FormattedTB(mode="Plain", theme_name="nocolor")
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(InteractiveTB=plain))
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "tracebackhide")
    yield
    jax.config.update("jax_traceback_filtering", before)


def step(w: jax.Array) -> jax.Array:
    return w + 1  # the last line of the person's own


@pytest.mark.usefixtures("as_in_a_notebook")
@pytest.mark.parametrize("use", [step, lambda w: jax.jit(doubled)(w)], ids=["direct", "jitted"])
def test_the_traceback_ends_at_the_line_of_the_person(
    arrays: LostArrays, use: Callable[[Any], object]
) -> None:
    w = deleted()
    arrays.note({"w": w}, {"w": TEXT})
    error: Any = error_of(lambda: use(w))
    kept = repair._without_jax(error.__traceback__)
    assert [frame.filename for frame in traceback.extract_tb(kept)][-1] == __file__
    shown = "\n".join(error._render_traceback_())
    assert shown.rstrip().endswith(f"LostArrayError: {TEXT}")
    assert "_check_if_deleted" not in shown and "checked(" not in shown


def test_where_jax_has_not_its_method_the_error_stays_as_it_is(
    arrays: LostArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "on_deleted", lambda error_for: False)
    w = deleted()
    arrays.note({"w": w}, {"w": TEXT})
    assert not isinstance(error_of(lambda: w + 1), LostArrayError)
