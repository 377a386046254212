"""What the processes of these tests run; see `tests.tensorflow.workers`."""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nbdist.engine.tensorflow import adapt as adaptation


def data(rows: int) -> tuple[Any, Any]:
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(rows, 4)).astype("float32")
    return x, (x.sum(1) > 0).astype("int32")


def make_strategy(replicas: int = 1) -> Any:
    """That of several workers where there are; else of this process with so many CPU devices."""
    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if replicas == 1:
        return tf.distribute.get_strategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(cpu, parts)
    return tf.distribute.MirroredStrategy()


def make_model(strategy: Any, keras: Any = keras) -> Any:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Input((4,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.Dense(2),
            ]
        )
        model.compile(
            optimizer=keras.optimizers.Adam(0.05),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    return model


def keras_3(*, adapt: bool, replicas: int = 1, rows: int = 64, **_: Any) -> dict[str, Any]:
    """`fit` in several ways, `evaluate` and `predict`: all their numbers."""
    announced = adaptation.adapt() if adapt else None
    strategy = make_strategy(replicas)
    model = make_model(strategy)
    x, y = data(rows)
    pairs = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    first = model.fit(
        pairs, epochs=2, verbose=0, validation_data=pairs, class_weight={0: 1.0, 1: 2.0}
    )
    second = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
    outputs = model.predict(pairs, verbose=0)
    return {
        "announced": announced,
        "replicas": strategy.num_replicas_in_sync,
        "jit": model.jit_compile,
        "fit": {**first.history, "again": second.history["loss"]},
        "evaluate": model.evaluate(pairs, verbose=0),
        "evaluated_apart": evaluate_apart(model, x, y),
        "predict": outputs.tolist(),
        "called": np.asarray(model(x)).tolist(),
    }


def evaluate_apart(model: Any, x: Any, y: Any) -> list[float]:
    """Loss and accuracy by hand."""
    logits = np.asarray(model(x)).astype("float64")
    shifted = logits - logits.max(1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    right = logits.argmax(1) == y
    return [float(-log[np.arange(len(y)), y].mean()), float(right.mean())]


def announcements(**_: Any) -> dict[str, Any]:
    """What adapting says at first, again, and after it was undone; whether TensorFlow has started."""
    announced = [adaptation.adapt(), adaptation.adapt()]
    adaptation.undo()
    announced.append(adaptation.adapt())
    from tensorflow.python.eager import context

    return {"announced": announced, "started": context.context()._initialized}


def keras_3_undone(**_: Any) -> str:
    """What `fit` raises after the overrides were taken away."""
    adaptation.adapt()
    adaptation.undo()
    model = make_model(make_strategy())
    x, y = data(64)
    try:
        model.fit(x, y, batch_size=16, verbose=0)
    except (ValueError, tf.errors.OpError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def legacy_keras(rows: int = 64, **_: Any) -> dict[str, Any]:
    """The same with `tf_keras`, as shipped."""
    import tf_keras

    strategy = make_strategy()
    model = make_model(strategy, tf_keras)
    x, y = data(rows)
    pairs = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    history = model.fit(pairs, epochs=2, verbose=0, validation_data=pairs)
    return {
        "fit": history.history,
        "evaluate": model.evaluate(pairs, verbose=0),
        "predict": model.predict(pairs, verbose=0).tolist(),
        "called": np.asarray(model(x)).tolist(),
    }


def custom_loop(rows: int = 64, **_: Any) -> list[float]:
    """Mean losses of a training loop written by hand, with a Keras 3 model."""
    strategy = make_strategy()
    model = make_model(strategy)
    x, y = data(rows)
    pairs = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    batches = strategy.experimental_distribute_dataset(pairs)
    losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def of_one_replica(inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            each = losses(labels, model(inputs, training=True))
            loss = tf.nn.compute_average_loss(each, global_batch_size=16)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(inputs: Any, labels: Any) -> Any:
        each = strategy.run(of_one_replica, args=(inputs, labels))
        return strategy.reduce("SUM", each, axis=None)

    return [float(step(*batch)) for _ in range(2) for batch in batches]
