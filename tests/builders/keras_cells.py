"""Keras on several processes as cells: distributions, and a model of handwritten digits."""

from __future__ import annotations

DISTRIBUTIONS = """
import jax, keras, numpy as np
me, count = jax.process_index(), jax.process_count()
def data_parallel(auto_shard=False):
    return keras.distribution.DataParallel(auto_shard_dataset=auto_shard)
def model_parallel(*shape):
    names = keras.distribution.list_devices()
    mesh = keras.distribution.DeviceMesh(shape or (len(names) // 2, 2), ["batch", "model"], names)
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = (None, "model")
    return keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch", auto_shard_dataset=False)
def distribute(distribution):
    keras.distribution.set_distribution(distribution)
"""
"""`distribute(data_parallel())`; `model_parallel` divides the kernels over two devices where no shape is given."""

DIGITS = """
import keras, numpy as np
from sklearn.datasets import load_digits
digits = load_digits()
x = (digits.data[:768] / 16).astype("float32")
y = digits.target[:768].astype("int32")
def new_model(optimizer="adam"):
    # A model of one process alone leaves its random numbers ahead of the others'.
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(12)]
    model = keras.Sequential([keras.layers.Input((64,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss)
    model.optimizer.learning_rate = 0.01 if optimizer == "adam" else 0.1
    return model
"""
"""All rows, and a model that learns them; for a single process as well."""

ROWS = """
X = np.random.default_rng(0).normal(size=(96, 8)).astype("f4")
Y = X.sum(1, keepdims=True).repeat(2, 1)
def mine():
    return X[jax.process_index() :: jax.process_count()], Y[jax.process_index() :: jax.process_count()]
def new_model(seed=7, *, units=16, build=True):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(units, activation="relu"), keras.layers.Dropout(0.1), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    if build:
        model.optimizer.build(model.trainable_variables)
    return model
"""
"""After `DISTRIBUTIONS`: rows of which each process has its own, and a model with dropout."""
