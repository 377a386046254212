"""A socket of our own on which the engines' messages arrive, whoever asked for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import zmq
from jupyter_client.session import Session as Wire


def wire(connection: Mapping[str, Any]) -> Wire:
    """What reads messages that are signed with a session's key."""
    return Wire(key=connection["key"].encode(), signature_scheme=connection["signature_scheme"])


def subscriber(
    context: zmq.Context[zmq.Socket[bytes]], connection: Mapping[str, Any], topics: Iterable[bytes]
) -> zmq.Socket[bytes]:
    """A socket that receives these topics; a subscription takes a moment to arrive.

    Args:
      context: Of the thread that will use the socket.
      connection: ipyparallel's client connection info.
      topics: The beginnings of what is to be received.
    """
    socket = context.socket(zmq.SUB)
    socket.RCVHWM = 0
    socket.LINGER = 0
    for topic in topics:
        socket.setsockopt(zmq.SUBSCRIBE, topic)
    server = connection.get("curve_serverkey")
    if server:
        # CURVE where the controller has it, with a pair of keys of this socket's own.
        socket.curve_serverkey = server.encode()
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
    socket.connect(f"{connection['interface']}:{connection['iopub']}")
    return socket
