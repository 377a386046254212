"""A back end that only itself refers to is freed without a look at all there is; others by one."""

import gc
import weakref
from unittest import mock

import pytest

from nbdist.engine.frameworks.jax.repair.backend import collect, prepare


class Client:
    __module__ = "jaxlib.stand_in"
    __slots__ = ("__weakref__", "device")


class Silent:
    __module__ = "jaxlib.stand_in"
    __slots__ = ("device",)


class Device:
    __module__ = "jaxlib.stand_in"
    __slots__ = ("__weakref__", "client")


def old_circle(kind):
    """A client and its device, among the oldest of the heap; the device only weakly."""
    client, device = kind(), Device()
    client.device, device.client = device, client
    gc.collect()
    return client, weakref.ref(device)


@pytest.fixture
def collections():
    """The generations that were collected."""
    gc.disable()
    with mock.patch.object(gc, "collect", wraps=gc.collect) as asked:
        yield lambda: [call.args for call in asked.call_args_list]
    gc.enable()


def free(clients):
    """As a repair does; `clients` is the last reference to them."""
    prepared = prepare(clients)
    clients.clear()
    collect(prepared)


@pytest.mark.parametrize(
    ("kind", "part_of_other_garbage", "collected"),
    [
        (Client, False, [(0,)]),
        (Client, True, [(0,), ()]),
        (Silent, False, [(0,), ()]),
    ],
    ids=["alone", "part of other garbage", "no weak reference"],
)
def test_it_is_freed_and_all_else_is_looked_at_only_where_that_is_needed(
    collections, kind, part_of_other_garbage, collected
):
    client, device = old_circle(kind)
    if part_of_other_garbage:
        garbage = [client]
        garbage.append(garbage)
        gc.collect()
        del garbage
    before = len(collections())
    clients = [client]
    del client
    free(clients)
    assert device() is None
    assert collections()[before:] == collected


def test_what_is_still_in_use_stays_and_is_known_to_the_collector():
    client, device = old_circle(Client)
    free([client])
    assert client.device is device()
    assert gc.is_tracked(client)
    assert gc.is_tracked(client.device)
