"""Keras models, distributions and looks for tests."""

import threading

import keras

from nbdist.contract.snapshot import Model, Variable
from nbdist.engine.frameworks import frameworks
from nbdist.engine.probe.observer import NamespaceLook, Seen
from nbdist.engine.probe.walk import Bounds


def model_parallel(rules=None, shape=(4, 2)):
    """A `ModelParallel` over eight devices, with rules by pattern."""
    mesh = keras.distribution.DeviceMesh(shape, ["batch", "model"])
    layouts = keras.distribution.LayoutMap(mesh)
    for pattern, axes in (rules or {}).items():
        layouts[pattern] = axes
    return keras.distribution.ModelParallel(
        layout_map=layouts, batch_dim_name="batch", auto_shard_dataset=False
    )


def dense(units=32, name="net"):
    """A built model of two dense layers."""
    layers = [keras.Input((16,)), keras.layers.Dense(units, name="dense")]
    return keras.Sequential([*layers, keras.layers.Dense(8, name="head")], name=name)


def new_look() -> NamespaceLook:
    """A look whose main thread is this one."""
    return NamespaceLook(
        frameworks(), main_thread=threading.get_ident(), process_id=0, bounds=Bounds()
    )


def seen(look: NamespaceLook, **names) -> Seen:
    """What a look sees of these names, after what a cell's end notes."""
    look.note()
    return look.now(names)


def by_path(model: Model) -> dict[str, Variable]:
    """The variables of a described model by Keras' own path."""
    return {variable.path: variable for variable in model.variables}
