"""A back end that only itself refers to is freed without a look at all there is; others by one."""

import gc
import weakref
from unittest import mock

import pytest

from nbdist.engine.jax.repair.collect import collect


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


def test_what_nothing_else_refers_to_is_freed_alone(collections):
    client, device = old_circle(Client)
    before = len(collections())
    clients = [client]
    del client
    collect(clients)
    assert device() is None
    assert collections()[before:] == [(0,)]


def test_what_is_part_of_other_garbage_is_freed_with_it(collections):
    client, device = old_circle(Client)
    garbage = [client]
    garbage.append(garbage)
    gc.collect()
    del garbage
    before = len(collections())
    clients = [client]
    del client
    collect(clients)
    assert device() is None
    assert collections()[before:] == [(0,), ()]


def test_what_allows_no_weak_reference_is_freed_with_all(collections):
    client, device = old_circle(Silent)
    before = len(collections())
    clients = [client]
    del client
    collect(clients)
    assert device() is None
    assert collections()[before:] == [(0,), ()]


def test_what_is_still_in_use_stays():
    client, device = old_circle(Client)
    collect([client])
    assert client.device is device()
    assert device().client is client
    gc.collect()
    assert client.device is device()
