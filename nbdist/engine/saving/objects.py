"""Models and other objects that keep their arrays by themselves: saved by these arrays, restored in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from nbdist.errors import ArrayError


class Suffix(str):
    """The suffix that leads from the expression of an object to an array of it: `.layers[0].kernel`."""

    __slots__ = ()


class Keeper(Protocol):
    """A framework, as far as it saves its objects; `nbdist.engine.frameworks.framework.Framework` is one."""

    title: str

    def keeps_its_own(self, value: Any) -> bool:
        """Return whether this is an object of the framework, and not a container of arrays such as a list."""

    def state(self, value: Any) -> Any | None:
        """Return the arrays of an object that keeps its own, as a pytree; None: this kind is not saved."""

    def set_state(self, value: Any, state: Any) -> None:
        """Put arrays into an object, of the same shapes, dtypes and structure as its `state`."""


class Objects:
    """Access to objects that others may refer to, and that keep their arrays by themselves.

    Args:
      keepers: The frameworks that have been imported.
    """

    def __init__(self, keepers: Sequence[Keeper]) -> None:
        self._keepers = keepers

    def with_states(self, name: str, value: Any) -> Any:
        """Return the value with the arrays of each model in place of the model.

        Args:
          name: The variable's name.
          value: Any object.

        Raises:
          ArrayError: A model has no arrays yet, or an object of a framework is of a kind that is not saved.
        """
        import jax

        return jax.tree.map(lambda node: self._state(name, node), value, is_leaf=self.keeps_its_own)

    def given_back(self, there: Any, restored: Any) -> Any:
        """Return the value for a name: models that are there, with the restored arrays; all else as restored.

        Args:
          there: The value of the name now.
          restored: The restored value, in the structure that `with_states` gives for `there`.
        """
        import jax

        nodes, tree = jax.tree.flatten(there, is_leaf=self.keeps_its_own)
        values = tree.flatten_up_to(restored)
        return tree.unflatten(
            [self._given(node, value) for node, value in zip(nodes, values, strict=True)]
        )

    def keeps_its_own(self, value: Any) -> bool:
        """Return whether this is an object that keeps its own arrays, and no container of arrays."""
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
    """Return a path of JAX's as a person writes it, also into a model."""
    import jax

    return "".join(
        str(key.key) if type(getattr(key, "key", None)) is Suffix else jax.tree_util.keystr((key,))
        for key in path
    )
