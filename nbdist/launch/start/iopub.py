"""A socket of our own that receives the engines' messages, whoever sent the requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import zmq
from jupyter_client.session import Session as Wire


def wire(connection: Mapping[str, Any]) -> Wire:
    """Return a reader of messages that are signed with a session's key."""
    return Wire(key=connection["key"].encode(), signature_scheme=connection["signature_scheme"])


def subscriber(
    context: zmq.Context[zmq.Socket[bytes]], connection: Mapping[str, Any], topics: Iterable[bytes]
) -> zmq.Socket[bytes]:
    """Return a socket that receives these topics; a subscription takes a moment to arrive.

    Args:
      context: The context of the thread that will use the socket.
      connection: ipyparallel's client connection info.
      topics: The beginnings of the topics to receive.
    """
    socket = context.socket(zmq.SUB)
    socket.RCVHWM = 0
    socket.LINGER = 0
    for topic in topics:
        socket.setsockopt(zmq.SUBSCRIBE, topic)
    server = connection.get("curve_serverkey")
    if server:
        # If the controller uses CURVE, this socket has a key pair of its own.
        socket.curve_serverkey = server.encode()
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
    socket.connect(f"{connection['interface']}:{connection['iopub']}")
    return socket
