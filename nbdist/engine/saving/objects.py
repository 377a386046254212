"""Models and what else keeps its arrays by itself: saved by these, restored into what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from nbdist.errors import ArrayError


class Suffix(str):
    """What follows the expression of an object to reach an array of it: `.layers[0].kernel`."""

    __slots__ = ()


class Keeper(Protocol):
    """What a framework says of its objects; a `nbdist.engine.frameworks.framework.Framework` is one."""

    title: str

    def keeps_its_own(self, value: Any) -> bool:
        """Whether this is an object of the framework, and not a container of arrays such as a list."""

    def state(self, value: Any) -> Any | None:
        """The arrays of an object that keeps its own, as a pytree; None: nobody saves objects of this kind."""

    def set_state(self, value: Any, state: Any) -> None:
        """Has an object keep arrays of the same shapes and dtypes, and of the structure of its `state`."""


class Objects:
    """Objects that others may refer to, and that keep their arrays by themselves.

    Args:
      keepers: Those of all frameworks that have been imported.
    """

    def __init__(self, keepers: Sequence[Keeper]) -> None:
        self._keepers = keepers

    def with_states(self, name: str, value: Any) -> Any:
        """The value with the arrays of each model in place of the model.

        Args:
          name: Of the variable.
          value: Any object.

        Raises:
          ArrayError: A model has no arrays yet, or an object of a framework is none of those that are saved.
        """
        import jax

        return jax.tree.map(lambda node: self._state(name, node), value, is_leaf=self.keeps_its_own)

    def given_back(self, there: Any, restored: Any) -> Any:
        """What a name is to lead to: models that are there have what was restored, all else is as it was restored.

        Args:
          there: What the name leads to now.
          restored: Of the structure that `with_states` gives of it.
        """
        import jax

        nodes, tree = jax.tree.flatten(there, is_leaf=self.keeps_its_own)
        values = tree.flatten_up_to(restored)
        return tree.unflatten(
            [self._given(node, value) for node, value in zip(nodes, values, strict=True)]
        )

    def keeps_its_own(self, value: Any) -> bool:
        """Whether this is such an object, and no container of arrays."""
        return self._keeper(value) is not None

    def _keeper(self, value: Any) -> Keeper | None:
        return next((one for one in self._keepers if one.keeps_its_own(value)), None)

    def _state(self, name: str, node: Any) -> Any:
        keeper = self._keeper(node)
        if keeper is None:
            return node
        state = keeper.state(node)
        if state is None:
            raise ArrayError(
                f"{name} is or holds an object of {keeper.title} ({type(node).__name__}) that is not saved. What "
                "is: its models, layers, optimizers and variables. Nothing was written."
            )
        if not state:
            raise ArrayError(
                f"{name} is or holds a {type(node).__name__} that has no arrays yet. Build it "
                "first, such as by a call with one batch. Nothing was written."
            )
        return state

    def _given(self, node: Any, value: Any) -> Any:
        keeper = self._keeper(node)
        if keeper is None:
            return value
        keeper.set_state(node, value)
        return node


def path_text(path: tuple[Any, ...]) -> str:
    """A path of JAX's as a person writes it, also into a model."""
    import jax

    return "".join(
        str(key.key) if type(getattr(key, "key", None)) is Suffix else jax.tree_util.keystr((key,))
        for key in path
    )
