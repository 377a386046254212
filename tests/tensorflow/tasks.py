"""What the processes of these tests run; see `tests.tensorflow.workers`."""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nbdist.contract.wire import encode
from nbdist.engine.frameworks import array_of
from nbdist.engine.frameworks.tensorflow import interrupt, observe
from nbdist.engine.frameworks.tensorflow import start as adaptation
from tests.tensorflow.workers import tf_config
from tests.waiting import wait_for


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
    return {"announced": announced, "started": interrupt.started()}


def uneven_batches(*, adapt: bool, **_: Any) -> str:
    """What `fit` raises with batches that two replicas cannot share evenly."""
    if adapt:
        adaptation.adapt()
    model = make_model(make_strategy(2))
    x, y = data(9)
    return raised(lambda: model.fit(x, y, batch_size=3, verbose=0))


def keras_3_undone(**_: Any) -> str:
    """What `fit` raises after the overrides were taken away."""
    adaptation.adapt()
    adaptation.undo()
    model = make_model(make_strategy())
    x, y = data(64)
    return raised(lambda: model.fit(x, y, batch_size=16, verbose=0))


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


def blocked_and_back(*, talk: Any, index: int, again: list[str], graph: bool) -> None:
    """Trains, blocks in a collective until interrupted, and trains in a new cluster at other ports.

    Args:
      talk: Says losses, "blocked" before it blocks, what freed it and what comes of a collective after that;
        then waits to go on.
      index: This worker.
      again: Addresses of the second cluster.
      graph: Block inside a `tf.function`, not on a thread of TensorFlow's pool for eager collectives.
    """
    interrupts = interrupt.Interrupts(threading.main_thread().ident or 0)
    interrupts.install()
    adaptation.adapt()
    kept = {"rows": 64}
    x, y = data(kept["rows"])
    strategy = make_strategy()
    model = make_model(strategy)
    talk.say(model.fit(x, y, batch_size=16, verbose=0).history["loss"])
    if index == 0:
        # The others never come.
        total = functools.partial(strategy.reduce, "SUM", tf.ones(()), axis=None)
        total = tf.function(total) if graph else total
        talk.say("blocked")
        talk.say(raised(total, interrupts.translated))
        # What an interrupted collective leaves behind is aborted a moment later.
        wait_for(lambda: interrupts.freed)
        interrupts.begin()
        talk.say(raised(total, interrupts.translated))
    talk.receive()
    train_anew(talk, again, index, kept["rows"])


def raised(call: Callable[[], object], translated: Callable[[Any], Any] = lambda e: e) -> str:
    """The error of a call."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - an interrupt is one of those expected
        error = translated(error)
        return f"{type(error).__name__}: {error}"
    return "nothing"


def train_anew(talk: Any, addresses: list[str], index: int, rows: int = 64) -> None:
    """Losses of a new model in a new cluster."""
    interrupt.reset_context()
    os.environ["TF_CONFIG"] = tf_config(addresses, index)
    x, y = data(rows)
    model = make_model(make_strategy())
    talk.say(model.fit(x, y, batch_size=16, epochs=2, verbose=0).history["loss"])
    # Worker 0 has the coordination service in it, which the others may still need.
    talk.receive()


def interrupted_elsewhere(*, talk: Any, index: int, inside: str, over: str) -> None:
    """Is interrupted where no collective is: in Python, and in a long operation; then trains.

    Args:
      talk: Says "python" before it is busy in there, what came of it, and of the operation; then losses.
      index: This worker.
      inside: A file that the operation writes when it has begun.
      over: A file that ends the operation.
    """
    interrupts = interrupt.Interrupts(threading.main_thread().ident or 0)
    interrupts.install()
    adaptation.adapt()
    strategy = make_strategy()
    model = make_model(strategy)
    if index == 0:
        # From inside of what is watched: the signal may come at once.
        talk.say(raised(lambda: (talk.say("python"), all(True for _ in itertools.repeat(1)))))
        talk.say(raised(lambda: compute(tf.random.uniform((1000, 1000)), inside, until=over)))
    talk.receive()
    interrupts.begin()
    x, y = data(64)
    talk.say(model.fit(x, y, batch_size=16, verbose=0).history["loss"])
    talk.receive()


@tf.function
def compute(square: Any, inside: str, *, until: str) -> Any:
    """Multiplies a matrix by itself from when it has written one file until there is another."""
    tf.io.write_file(inside, "")
    # TensorFlow looks once where nothing that it looks for changes.
    while tf.size(tf.io.matching_files([until, tf.strings.as_string(square[0, 0])])) == 0:
        square = tf.linalg.matmul(square, square)
        square = square / tf.norm(square)
    return square


def killed_in_fit(*, talk: Any, index: int, again: list[str]) -> None:
    """Trains until a worker is killed, and goes on in a new cluster with another in its place.

    Args:
      talk: Says the process id with each epoch; then, in a survivor, what `fit` raised; waits; then losses.
      index: This worker.
      again: Addresses of the second cluster.
    """
    adaptation.adapt()
    x, y = data(64)
    model = make_model(make_strategy())
    say = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: talk.say(os.getpid()))
    talk.say(
        raised(lambda: model.fit(x, y, batch_size=16, epochs=10**6, verbose=0, callbacks=[say]))
    )
    talk.receive()
    train_anew(talk, again, index)


def replacement(*, talk: Any, index: int, again: list[str]) -> None:
    """A new process in place of a killed one: the second half of `killed_in_fit`."""
    adaptation.adapt()
    train_anew(talk, again, index)


def seen_by_a_probe(*, index: int, replicas: int = 1, **_: Any) -> dict[str, Any]:
    """What an observer sees before a strategy is made, then of a model that trains, then of data sets."""
    observer = observe.TensorFlowObserver(threading.main_thread().ident or 0, index)
    observer.note()
    looks: list[Any] = [_look(observer, {})]
    started = interrupt.started()
    adaptation.adapt()
    strategy = make_strategy(replicas)
    model = make_model(strategy)
    with strategy.scope():
        on_read = tf.Variable(
            tf.zeros(3),
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
            trainable=False,
        )
    namespace = {
        "kernel": model.layers[0].kernel._value,
        "on_read": on_read,
        "plain": tf.Variable(tf.ones((2, 5))),
        "words": tf.Variable(["a"]),
    }
    looks.append(_look(observer, namespace))
    x, y = data(64)
    model.fit(
        x[:63], y[:63], batch_size=21, verbose=0, validation_data=(x, y), validation_batch_size=8
    )
    model.evaluate(x, y, batch_size=32, verbose=0)
    looks.append(_look(observer, namespace))
    offered = {
        name: observe.offer_array(array_of(value), name)
        for name, value in {
            "kernel": namespace["kernel"],
            "variable": model.layers[0].kernel,
            "tensor": tf.ones((2, 5)),
            "x": x,
        }.items()
    }
    return {
        "looks": looks,
        "offered": {name: one and encode(one.describe()) for name, one in offered.items()},
        "bytes": np.array_equal(offered["variable"].pieces[0].read(), model.layers[0].kernel),  # type: ignore[union-attr]
        "refused": [
            raised(lambda: symbolic(lambda tensor: observe.offer_array(tensor, "t"))),
            raised(lambda: observe.offer_array(namespace["words"], "words")),
        ],
        "started_by_looking": started,
    }


def symbolic(call: Callable[[Any], object]) -> None:
    """Calls with a tensor of a graph."""
    tf.function(lambda: call(tf.ones(3)) and None, autograph=False)()


def _look(observer: observe.TensorFlowObserver, namespace: dict[str, Any]) -> dict[str, Any] | None:
    """One look from another thread, as the probe's."""
    found: list[Any] = []

    def look() -> None:
        if not observer.begin():
            found.append(None)
            return
        listed = {name: observer.add(name, value) for name, value in namespace.items()}
        found.append(
            {
                "listed": listed,
                "arrays": {one.path: encode(one) for one in observer.arrays()},
                "devices": encode(observer.devices()),
                "meshes": encode(observer.meshes()),
                "distributions": encode(observer.distributions()),
                "again": all(
                    observer.describe(v) is observer.describe(v) for v in namespace.values()
                ),
            }
        )

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0]
