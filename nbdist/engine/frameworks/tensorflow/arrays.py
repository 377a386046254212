"""TensorFlow's variables and tensors: where their copies lie, and how their bytes go to the kernel."""

from __future__ import annotations

from typing import Any

from nbdist.contract.calls.arrays import ArraysFound
from nbdist.engine.frameworks import array_of
from nbdist.engine.frameworks.tensorflow.describe import describe, replica_values
from nbdist.engine.frameworks.tensorflow.strategies import REMEMBERED, replicas_of
from nbdist.engine.values.arrays import OfferedArray, whole
from nbdist.engine.values.incoming import Place
from nbdist.errors import ArrayError
from nbdist.spelling import option


def explain(value: Any, expression: str, *, process_id: int) -> ArraysFound:
    """Return where the copies of one variable lie.

    Args:
      value: The variable.
      expression: The expression that names it.
      process_id: The number of this process.

    Raises:
      ArrayError: The value is no variable, or belongs to no strategy in force.
    """
    import tensorflow as tf

    value, strategy = array_of(value), REMEMBERED.get()
    replicas = None if strategy is None else replicas_of(strategy, process_id)
    if not isinstance(value, tf.Variable):
        kind = type(value).__name__
        raise ArrayError(f"{expression!r} is a {kind}, not a tf.Variable; it has no copies.")
    if replicas is None:
        raise ArrayError(f"No strategy is in force that {expression!r} could belong to.")
    described = describe(value, expression, replicas, process_id)
    if described is None:
        raise ArrayError(f"{expression!r} lies on no device of the strategy in force.")
    return ArraysFound(expression=expression, arrays=(described,), meshes=(replicas.mesh,))


def offer_array(value: Any, expression: str) -> OfferedArray | None:
    """Return the offer of a variable or tensor of this process, whole; None for anything else.

    For a mirrored variable, the copy of this process's first replica is read. A variable whose copies are combined
    when it is read is read that way; all workers must do that together.

    Raises:
      ArrayError: The value holds no numbers, such as a symbolic tensor or one of strings.
    """
    import numpy
    import tensorflow as tf

    if not isinstance(value, tf.Variable | tf.Tensor):
        return None
    values = replica_values(value)
    if values is not None and value.synchronization.name != "ON_READ":
        value = values[0]
    try:
        array = numpy.ascontiguousarray(value.numpy())
    except (AttributeError, NotImplementedError) as error:
        raise ArrayError(f"{expression!r} is symbolic: it has no value here.") from error
    if array.dtype == object:
        raise ArrayError(f"{expression!r} holds strings or objects; pull plain data out of it.")
    return whole(array.reshape(value.shape))


def placed(sharding: Any, expression: str) -> Place:
    """Refuse: TensorFlow has no arrays that are made of pieces on several processes.

    Raises:
      ArrayError: Always.
    """
    raise ArrayError(
        f"{option('sharding', expression)} makes JAX arrays, and this session computes with TensorFlow. Push the "
        f"array whole, without {option('sharding')}."
    )
