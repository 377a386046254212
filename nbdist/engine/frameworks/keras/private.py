"""Private API of Keras that nbdist uses: each name once, why it is used, and what happens without it.

For a new release of Keras this is the file to look at. Read and used in Keras 3.15.1, and in `tf_keras`, Keras 2
for TensorFlow. Names of modules are looked up among those that have been imported. Attributes are read from an
object's `__dict__`, since a user's class may override the public property with code of its own.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import GetSetDescriptorType, ModuleType
from typing import Any

from nbdist.engine.frameworks.hooks import PrivateName
from nbdist.engine.probe.classes import bases_of, class_dict


def live(instance: Any) -> dict[str, Any]:
    """Return an instance's own `__dict__`, which may change at any time: read single keys, never iterate."""
    for base in bases_of(type(instance)):
        found = class_dict(base).get("__dict__")
        if type(found) is GetSetDescriptorType:
            keeps: dict[str, Any] = found.__get__(instance)
            return keeps
    return {}


def attribute(instance: Any, name: str) -> Any:
    """Return one entry of an instance's `__dict__`; None if missing. The class's descriptors are not called."""
    return live(instance).get(name)


@dataclass(frozen=True, slots=True)
class PrivateAttribute:
    """An attribute that Keras does not document, under the name in Keras 3 or those in Keras 2 and TensorFlow."""

    name: str
    other: str = ""
    third: str = ""

    def of(self, instance: Any) -> Any:
        """Return the attribute's value in the instance's `__dict__`; None if it is missing."""
        has = live(instance).get
        found = has(self.name)
        if found is None and self.other:
            found = has(self.other)
        return has(self.third) if found is None and self.third else found

    def is_kept(self, instance: Any) -> bool:
        """Return whether the instance's `__dict__` has the attribute."""
        return self.name in live(instance)


# Variables.

# The array of a variable; None before it is made, and while a running `fit` has it. The public `value` casts to
# another dtype inside an autocast scope and makes a value where there is none; `assign` may change the sharding.
# Without it no variable is shown, and `assign` is called.
VALUE = PrivateAttribute("_value")

# The same as `VALUE` in Keras' NNX mode, in which `_value` is a property.
RAW_VALUE = PrivateAttribute("_raw_value")

# The path of a variable or layer, such as `"sequential/dense/kernel"`. Without it no rule matches.
PATH = PrivateAttribute("_path", "_handle_name", "_common_name")

# Whether a variable or layer is marked as trainable. Without it variables count as not trainable.
TRAINABLE = PrivateAttribute("_trainable")

# The copies of a mirrored variable of TensorFlow, which have the attributes of a variable.
COPIES = PrivateAttribute("_values")

# The shape of a variable, also while it has no array. Without it a variable that a `fit` has is of no shape.
SHAPE = PrivateAttribute("_shape")

# The name of a variable. Without it variables of layers are reached by their numbers.
NAME = PrivateAttribute("_name")

# The `TensorLayout` of a variable. Without it rules are found by paths alone.
LAYOUT = PrivateAttribute("_layout")

# Layers, models and optimizers.

# The trainable variables of a layer, without those of the layers in it. Without it they are not shown.
TRAINABLE_VARIABLES = PrivateAttribute("_trainable_variables", "_trainable_weights")

# The other variables of a layer, without those of the layers in it. Without it they are not shown.
OTHER_VARIABLES = PrivateAttribute("_non_trainable_variables", "_non_trainable_weights")

# The seed generators of a layer, with their variable `state`. Without it their states are not shown.
SEED_GENERATORS = PrivateAttribute("_seed_generators")

# The layers in a layer; only models have a public property. Without it only a layer's own variables are shown.
LAYERS = PrivateAttribute("_layers", "_self_tracked_trackables")

# The layers of a functional model, in the order of its `layers`. Without it they have no number in it.
OPERATIONS = PrivateAttribute("_operations")

# The variables of an optimizer. Without it they are not shown.
OPTIMIZER_VARIABLES = PrivateAttribute("_variables")

# The values that a running `fit` on JAX has taken out of the variables, between two steps.
# Without it the values listed before `fit` began stay listed until the epoch ends, and a model that is interrupted
# in its first step has no values, as in Keras alone.
JAX_STATE = PrivateAttribute("_jax_state")

# Whether the values of `JAX_STATE` are in the variables, too; see there.
JAX_STATE_SYNCED = PrivateAttribute("_jax_state_synced")

# Distributions.

# The `LayoutMap` of a distribution, to which no public way leads, and the rules of a `LayoutMap`.
# Without it no rules are known.
LAYOUT_MAP = PrivateAttribute("_layout_map")

# The axes of a `TensorLayout`. Without it a layout asks for nothing.
AXES = PrivateAttribute("_axes")

# The mesh of a distribution, layout map or layout. Without it no mesh is shown.
DEVICE_MESH = PrivateAttribute("_device_mesh")

# The axis along which a distribution divides a batch. Without it none is shown.
BATCH_AXIS = PrivateAttribute("_batch_dim_name")

# Whether a distribution divides data sets over the processes. Without it this is not shown.
AUTO_SHARD = PrivateAttribute("_auto_shard_dataset")

# The mesh of JAX that a `DeviceMesh` has made; the property would start a back end. See `DEVICES`.
BACKEND_MESH = PrivateAttribute("_backend_mesh")

# The names of the devices of a `DeviceMesh`, as an array in its shape. Without it the mesh is not shown.
DEVICES = PrivateAttribute("_devices")

# The names of the axes of a `DeviceMesh`. Without it the mesh is shown without axes.
AXIS_NAMES = PrivateAttribute("_axis_names")

# Modules.

# The thread-local state, which `clear_session()` replaces.
# The public `distribution()` returns the same distribution on the main thread, but the import of Keras is not
# complete when the hook is first wanted, and other threads could not see `clear_session()`. Without it no
# distribution is shown.
TRACKER = PrivateName("keras.src.backend.common.global_state", "GLOBAL_STATE_TRACKER")

# The one function that `set_distribution` and `Distribution.scope()` call: Keras has no event for a change.
# The module is loaded seconds before `import keras` returns, in time for a cell that imports Keras and sets a
# distribution in its next line. Without it changes are noted at the start and end of a cell.
SET_GLOBAL = PrivateName("keras.src.backend.common.global_state", "set_global_attribute")

# Returns the back end, also before Keras is wholly imported. Without it Keras counts as not imported.
BACKEND = PrivateName("keras.src.backend.config", "backend")

# The base class of all objects with a pickle of Keras' own. Without it they are pickled in their own way.
SAVEABLE = PrivateName("keras.src.saving.keras_saveable", "KerasSaveable")

# The base class of distributions. Without it they are pickled in their own way.
DISTRIBUTION = PrivateName("keras.src.distribution.distribution_lib", "Distribution")

# The tracker in which a layer keeps its parts; the containers of a layer are of its module.
# Without it they are pickled in their own way; an object that cannot be pickled is named as left out.
PARTS = PrivateName("keras.src.utils.tracking", "Tracker")

# Turns the logs of each step and epoch into numbers, in a wait that no interrupt ends.
# Without it a process whose peers have left the step is reported as stuck.
LOGS = PrivateName("keras.src.utils.python_utils", "pythonify_logs")


def imported_tracker() -> Any | None:
    """Return the thread-local state; None where it is missing, or while its module is not wholly imported."""
    return None if is_coming() else TRACKER.get()


def is_coming() -> bool:
    """Return whether the module of Keras' thread-local state is not wholly imported yet."""
    spec = getattr(sys.modules.get(TRACKER.module), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def back_end_library(back_end: str, *, imported: bool = True) -> ModuleType | None:
    """Return the module of a back end in which `keras.distribution` looks for its functions; None without it.

    It has `distribute_tensor` and `initialize` where variables and data are really distributed; there is no public
    way to ask. If it has moved, JAX alone counts as a back end that joins processes.

    Args:
      back_end: The name of the back end.
      imported: Whether only a module counts that has been imported.
    """
    name = f"keras.src.backend.{back_end}.distribution_lib"
    if imported:
        return sys.modules.get(name)
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def is_part(value: Any) -> bool:
    """Return whether this is a container in which a layer keeps its parts."""
    return type(value).__module__ == PARTS.module


def renew(state: dict[str, Any], process_id: int, processes: int) -> None:
    """Set again the entries of an object's `__dict__` that hold an `id()`, or this process's own number.

    By `id()` an optimizer finds the place of a variable, a tracker its contents, and a functional model its nodes.
    A distribution keeps its process and their number. An object without these attributes stays as it is.
    """
    if "_trainable_variables_indices" in state:
        places = {id(v): place for place, v in enumerate(state["_trainable_variables"])}
        state["_trainable_variables_indices"] = places
    if "stored_ids" in state:
        config = state["config"].items()
        state["stored_ids"] = {name: set(map(id, store)) for name, (_, store) in config}
    if "_nodes" in state and "_nodes_by_depth" in state:
        graph = importlib.import_module("keras.src.ops.function")
        state["_nodes"] = graph.map_graph(state["_inputs"], state["_outputs"])[0]
    if "_process_id" in state and _is_for_all(state):
        state.update(
            _process_id=process_id, _num_processes=processes, _is_multi_process=processes > 1
        )


def _is_for_all(distribution: dict[str, Any]) -> bool:
    """Return whether a distribution, given by its attributes, covers all processes, even if there was only one."""
    if distribution.get("_num_processes", 1) > 1:
        return True
    devices = getattr(distribution.get("_device_mesh"), "devices", None)
    every = sys.modules["keras"].distribution.list_devices()
    return devices is not None and devices.size == len(every)
