"""Models and what else keeps its arrays by itself: saved by these, restored into what is there."""

from __future__ import annotations

from typing import Any

from nbdist.engine.frameworks import imported
from nbdist.engine.frameworks.framework import Framework, Suffix
from nbdist.errors import ArrayError


def with_states(name: str, value: Any) -> Any:
    """The value with the arrays of each model in place of the model.

    Args:
      name: Of the variable.
      value: Any object.

    Raises:
      ArrayError: A model has no arrays yet, or an object of a framework is none of those that are saved.
    """
    import jax

    return jax.tree.map(lambda node: _state(name, node), value, is_leaf=keeps_its_own)


def given_back(there: Any, restored: Any) -> Any:
    """What a name is to lead to: models that are there have what was restored, all else is as it was restored.

    Args:
      there: What the name leads to now.
      restored: Of the structure that `with_states` gives of it.
    """
    import jax

    nodes, tree = jax.tree.flatten(there, is_leaf=keeps_its_own)
    return tree.unflatten(
        [
            _given(node, value)
            for node, value in zip(nodes, tree.flatten_up_to(restored), strict=True)
        ]
    )


def keeps_its_own(value: Any) -> bool:
    """Whether this is no container of arrays, but an object that others may refer to and that keeps its own."""
    return _keeper(value) is not None


def path_text(path: tuple[Any, ...]) -> str:
    """A path of JAX's as a person writes it, also into a model."""
    import jax

    return "".join(
        str(key.key)
        if type(getattr(key, "key", None)) is Suffix
        else jax.tree_util.keystr((key,))
        for key in path
    )


def _keeper(value: Any) -> Framework | None:
    return next((one for one in imported() if one.keeps_its_own(value)), None)


def _state(name: str, node: Any) -> Any:
    keeper = _keeper(node)
    if keeper is None:
        return node
    state = keeper.state(node)
    if state is None:
        raise ArrayError(
            f"{name} is or holds an object of {keeper.title} ({type(node).__name__}) that is not "
            "saved. What is: its models, layers, optimizers and variables. Nothing was written."
        )
    if not state:
        raise ArrayError(
            f"{name} is or holds a {type(node).__name__} that has no arrays yet. Build it first, "
            "such as by a call with one batch. Nothing was written."
        )
    return state


def _given(node: Any, value: Any) -> Any:
    keeper = _keeper(node)
    if keeper is None:
        return value
    keeper.set_state(node, value)
    return node
