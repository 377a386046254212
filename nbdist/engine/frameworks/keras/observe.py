"""Observer of Keras: the models of the namespace, the distribution that is set, and the results of training.

The probe's thread describes the models, from metadata alone: rule, layout, spec and bytes of each variable. A rule
is a pattern in the layout map of the distribution that is set. Specs and bytes come from descriptions of the
arrays that the variables hold, which the back end's observer makes; no device memory is read.

The rest is noted on the thread where it happens: the distribution, which other threads cannot see, and the results
of each epoch of `fit` and of each evaluation, by a hook into Keras' callbacks (`hook_callbacks`).
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from nbdist.contract.page import LARGE_BYTES
from nbdist.contract.snapshot import (
    Array,
    Mesh,
    Model,
    NamedSharding,
    Variable,
)
from nbdist.engine.frameworks.jax.describe import Meshes
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.distribution import (
    SetDistribution,
    axes_of,
    describe_distribution,
    matches,
    rules_of,
    unmatched,
)
from nbdist.engine.frameworks.keras.expressions import PACKAGES
from nbdist.engine.frameworks.keras.objects import (
    VariablePlaces,
    is_trainable,
    lent_values,
    path_of,
    raw_value,
)
from nbdist.engine.probe.activity import evaluation, note
from nbdist.engine.probe.observer import Describe, Models
from nbdist.pieces import fullest_bytes, is_whole_everywhere, totals

MOST_MODELS = 8
"""The most models in a report."""

MOST_VARIABLES = 1000
"""The most variables of one model in a report; the rest is only counted."""


class LayoutRules:
    """The rules of the distribution that is set.

    Args:
      distribution: A `keras.distribution.Distribution`; None: no rule matches.
      before: The rules of the previous look, which may have matched the same paths.
    """

    def __init__(self, distribution: Any | None, before: LayoutRules | None = None) -> None:
        found = rules_of(distribution) if distribution is not None else []
        self.patterns = tuple(pattern for pattern, _ in found)
        self.axes = {pattern: axes_of(layout) for pattern, layout in found}
        self._by_layout = {id(layout): pattern for pattern, layout in found}
        # Matches stay true while the patterns are the same.
        same = before is not None and before.patterns == self.patterns
        self._by_path: dict[str, str | None] = before._by_path if before and same else {}

    def of(self, path: str, layout: Any) -> str | None:
        """Return the rule of a variable; None where no rule matched.

        A layout map gives its own layout objects to variables, and an optimizer's slot takes the layout of its
        variable, so the layout object identifies the rule. A variable made before this distribution was set is
        matched by its path.
        """
        pattern = self._by_layout.get(id(layout)) if layout is not None else None
        return pattern if pattern is not None else self.matching(path)

    def matching(self, path: str) -> str | None:
        """Return the first rule that equals a path or matches all of it, as `LayoutMap` does; None without one."""
        if path not in self._by_path:
            self._by_path[path] = next(
                (one for one in self.patterns if one == path or matches(one, path)), None
            )
        return self._by_path[path]


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """The part of a variable's description that needs no mesh, and the facts that it was made from.

    `described` has placeholders for the facts that need the meshes: `device_bytes` of the whole variable, `missed`
    False.
    """

    variable: weakref.ref[Any]
    facts: tuple[Any, ...]
    array: Array
    described: Variable


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The last description of a model, and the facts that it was made from."""

    model: weakref.ref[Any]
    about: tuple[Any, ...]
    said: list[_Said]
    described: Model


class KerasModels:
    """The descriptions of models for the `models` section of each report; keeps no model alive.

    A description that has not changed is the same object in the next look, so that sections are cheap to compare.

    Args:
      places: Finds the variables of models.
    """

    def __init__(self, places: VariablePlaces) -> None:
        self._places = places
        self._known: dict[int, _Known] = {}
        self._said: dict[int, _Said] = {}
        self._before: dict[int, _Said] = {}
        self._rules = LayoutRules(None)

    def describe(
        self,
        models: Iterable[tuple[str, Any]],
        distribution: Any | None,
        describe: Describe,
        meshes: Callable[[], Mapping[str, Mesh]],
    ) -> tuple[Model, ...]:
        """Return models as reports have them; models without variables are left out.

        Args:
          models: Each model, with the expression that reaches it.
          distribution: The distribution that is set on the main thread, if any.
          describe: Describes the array that a variable holds.
          meshes: Returns the meshes of the arrays described so far, by id.
        """
        self._rules = LayoutRules(distribution, self._rules)
        known, self._known = self._known, {}
        self._before, self._said = self._said, {}
        found = []
        for path, model in models:
            before = known.get(id(model))
            said = [one for one in self._variables(path, model, describe) if one is not None]
            if said:
                found.append(self._model(path, model, said, before, meshes))
        return tuple(found)

    def _model(
        self,
        path: str,
        model: Any,
        said: list[_Said],
        known: _Known | None,
        meshes: Callable[[], Mapping[str, Mesh]],
    ) -> Model:
        about = (path, self._rules.patterns)
        if (
            known is None
            or known.model() is not model
            or (known.about, known.said) != (about, said)
        ):
            now = meshes()
            used = {one.described.rule for one in said}
            described = Model(
                path=path,
                kind=type(model).__name__,
                variables=tuple(self._placed(one, now) for one in said[:MOST_VARIABLES]),
                variables_omitted=max(len(said) - MOST_VARIABLES, 0),
                unmatched=unmatched(self._rules.patterns, used, model),
                totals=totals([one.array for one in said], now),
            )
            known = _Known(weakref.ref(model), about, said, described)
        self._known[id(model)] = known
        return known.described

    def _placed(self, said: _Said, meshes: Mapping[str, Mesh]) -> Variable:
        """Return a variable's description with the facts that the meshes tell: `device_bytes` and `missed`."""
        return structs.replace(
            said.described,
            device_bytes=fullest_bytes(said.array, meshes),
            missed=self._is_missed(said, meshes),
        )

    def _is_missed(self, said: _Said, meshes: Mapping[str, Mesh]) -> bool:
        if not self._rules.patterns or said.described.rule is not None:
            return False
        large = said.array.nbytes >= LARGE_BYTES
        return large and is_whole_everywhere(said.array, meshes)

    def _variables(self, path: str, model: Any, describe: Describe) -> Iterator[_Said | None]:
        lent = lent_values(model)
        trains = private.TRAINABLE.of(model) is not False
        for place, variable in self._places.of(model):
            value = raw_value(variable)
            if value is None:
                value = lent.get(id(variable))
            array = describe(path + place.suffix if place.suffix is not None else None, value)
            group = "non-trainable"
            if place.of_optimizer:
                group = "optimizer"
            elif trains and is_trainable(variable):
                group = "trainable"
            yield self._variable(variable, array, group, place.suffix is not None)

    def _variable(
        self, variable: Any, array: Array | None, group: str, listed: bool
    ) -> _Said | None:
        """Return what is known of one variable; None while nothing is known of its value."""
        before = self._before.get(id(variable))
        if before is not None and before.variable() is not variable:
            before = None
        if array is None and before is not None:
            array = before.array  # a running `fit` has the value; its sharding has not changed
        if array is None:
            return None
        path, layout = path_of(variable), private.LAYOUT.of(variable)
        rule = self._rules.of(path, layout)
        axes = self._rules.axes[rule] if rule is not None else axes_of(layout)
        if rule is None and axes is not None and not any(axes):
            axes = None  # Keras gives this layout to variables that no rule matched
        facts = (path, group, listed, rule, axes, bool(self._rules.patterns))
        if before is None or before.facts != facts or before.array is not array:
            before = _Said(weakref.ref(variable), facts, array, _described(array, facts))
        self._said[id(variable)] = before
        return before


def _described(array: Array, facts: tuple[Any, ...]) -> Variable:
    path, group, listed, rule, axes, _ = facts
    sharding = array.sharding
    return Variable(
        path=path,
        array=(array.path or None) if listed else None,
        group=group,
        shape=array.shape,
        dtype=array.dtype,
        nbytes=array.nbytes,
        rule=rule,
        axes=axes,
        spec=sharding.spec if isinstance(sharding, NamedSharding) else None,
        device_bytes=array.nbytes,
        missed=False,
    )


_hooked: dict[str, Callable[[], None]] = {}
"""The function that removes each hook, by package."""


def hook_callbacks() -> None:
    """Note the results of each epoch and evaluation from now on, for the packages imported by now.

    `keras.callbacks.CallbackList` is public: every `fit` and `evaluate` calls it at each epoch's end and each
    evaluation's end. The hook wraps its methods: an added callback would show in the results and the output of
    `fit`. A class without these methods is left alone, and nothing is noted.
    """
    for name in PACKAGES:
        package = sys.modules.get(name)
        if name in _hooked or package is None:
            continue
        if getattr(package.__spec__, "_initializing", False):
            continue
        cls = getattr(sys.modules.get(f"{name}.callbacks"), "CallbackList", None)
        unhook = _follow(cls)
        if unhook is not None:
            _hooked[name] = unhook


def unhook_callbacks() -> None:
    """Remove the hooks from all packages."""
    while _hooked:
        _hooked.popitem()[1]()


def _follow(cls: Any) -> Callable[[], None] | None:
    """Place the hook; return a function that removes it, or None where the class or its methods are missing."""
    epoch_end, test_end = (getattr(cls, name, None) for name in ("on_epoch_end", "on_test_end"))
    if epoch_end is None or test_end is None:
        return None

    @functools.wraps(epoch_end)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        result = epoch_end(self, epoch, logs)
        epochs = (getattr(self, "params", None) or {}).get("epochs")
        of = f" of {epochs}" if epochs else ""
        note(f"fit, epoch {epoch + 1}{of}", _results(logs))
        return result

    @functools.wraps(test_end)
    def on_test_end(self: Any, logs: Any = None) -> Any:
        __tracebackhide__ = True
        result = test_end(self, logs)
        if not _is_of_fit(self):
            note(evaluation(), _results(logs))
        return result

    cls.on_epoch_end, cls.on_test_end = on_epoch_end, on_test_end

    def unhook() -> None:
        cls.on_epoch_end, cls.on_test_end = epoch_end, test_end

    return unhook


def _is_of_fit(callbacks: Any) -> bool:
    """Return whether a list of callbacks belongs to a `fit`, which also validates with it at each epoch's end.

    Every `fit` has a `History`, and sets `epoch` on it at the start. In `tf_keras`, evaluations have a `History`,
    too.
    """
    every = getattr(callbacks, "callbacks", ())
    return any(type(one).__name__ == "History" and hasattr(one, "epoch") for one in every)


def _results(logs: Any) -> dict[str, Any]:
    """Return the results as numbers; called on the thread that trains, where Keras has just made them numbers."""
    found = {}
    for name, value in (logs or {}).items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue  # not one number, such as a confusion matrix
    return found


class KerasObserver:
    """An observer of Keras for repeated looks.

    `note` and `note_once` are called on the main thread; `add_model` and `look` always on the same thread, any
    one.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      places: Finds the variables of models; the walk over the namespace uses the same object.
    """

    def __init__(self, main_thread: int, places: VariablePlaces) -> None:
        self._set = SetDistribution(main_thread)
        self._meshes = Meshes()
        self._models = KerasModels(places)
        self._met: list[tuple[str, Any]] = []

    def add_model(self, path: str, model: Any) -> None:
        """Take a model that the walk over the namespace has met; a model with two names counts once."""
        if len(self._met) < MOST_MODELS and not any(model is one for _, one in self._met):
            self._met.append((path, model))

    def look(self, describe: Describe, meshes: Callable[[], Mapping[str, Mesh]]) -> Models:
        """Return the sections as of now; keep no model afterwards.

        Args:
          describe: Describes the array that a variable holds.
          meshes: Returns the meshes of the arrays described so far, by id.
        """
        distribution = self._set.get()
        met, self._met = self._met, []
        models = self._models.describe(met, distribution, describe, meshes)
        if distribution is None:
            return Models((), (), models)
        described, mesh = describe_distribution(distribution, self._meshes)
        return Models((described,), (mesh,) if mesh is not None else (), models)

    def note(self) -> None:
        """Note the distribution that is set, and follow its changes; called on the main thread."""
        self._set.note()

    def note_once(self) -> None:
        """Note the distribution that is set, and leave Keras as it is."""
        self._set.read()

    def hook(self) -> None:
        """Hook into Keras: note each change of the distribution, and the results of each epoch and evaluation."""
        self._set.hook()
        hook_callbacks()

    def unhook(self) -> None:
        """Remove the hooks."""
        self._set.unhook()
        unhook_callbacks()
