"""Processes in other hands, and other users of the machine: nothing they send is run, nothing is sent to them."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

import psutil
import pytest
import zmq

from nbdist import Session
from nbdist.errors import WireError
from nbdist.launch.start.client import subscriber

TURN = """
import ipyparallel.datapub
from pathlib import Path
from nbdist.engine.kernel.calls import SentCall as Call

class Planted:
    def __reduce__(self):
        return Path.touch, (Path(PATH),)

as_it_was = Call.__call__
if turned:
    Call.__call__ = lambda self, *buffers: [Planted()]
    ipyparallel.datapub.publish_data({"planted": Planted()})
"""

SPANNING = """
import jax
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ("x",))
w = jax.device_put(jax.numpy.arange(8.0), NamedSharding(mesh, P("x")))
"""


OLD = b"\x01\x00" + b"\x02\x01a\x02\x00b\x02\x00c" * 1000
"""A greeting of ZeroMQ 2, and messages of two parts and of one, as random bytes may be."""


def test_an_answer_that_would_run_something_is_refused_by_name_and_nothing_runs(
    session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "planted"
    session.run("import jax\nturned = jax.process_index() == 1\nx = 7")
    session.run(TURN.replace("PATH", repr(str(path))))
    with pytest.raises(WireError, match=r"process 1.*pathlib.*refused"):
        session.pull("x", on="1")
    assert session.pull("x", on="0") == 7
    session.run("Call.__call__ = as_it_was")
    assert session.pull("x", on="1") == 7
    assert not path.exists()


def test_what_cells_print_is_sent_to_nobody_without_the_sessions_keys(session: Session) -> None:
    connection = session._life.engines.cluster.connection
    others = {
        "no key": {**connection, "curve_serverkey": None},
        "a wrong key": {**connection, "curve_serverkey": zmq.curve_keypair()[0].decode()},
        "its keys": connection,
    }
    with zmq.Context() as context:
        sockets = {name: subscriber(context, one, [b""]) for name, one in others.items()}
        # A subscription takes a moment: cells are sent until one has come where it is to come.
        while not sockets["its keys"].poll(100):
            session.run("print('a word for one person')")
        assert {name for name, one in sockets.items() if one.poll(0)} == {"its keys"}
        for one in sockets.values():
            one.close()


def test_noise_at_every_port_leaves_a_session_in_step_with_the_right_values(
    session: Session,
) -> None:
    session.run(SPANNING)
    ports = listening()
    assert {
        session._life.engines.cluster.connection[name] for name in ("registration", "iopub")
    } <= {port for _, port in ports}
    noise = random.Random(7)
    with contextlib.ExitStack() as opened:
        for address in sorted(ports) * 5:
            for data in (noise.randbytes(1 << 16), OLD):
                opened.enter_context(connected(address, data))
        session.run("total = float(w.sum())", timeout_s=60)
        assert session.pull("total") == 28.0
        assert not session.out_of_step
    session.run("total = float((w * 2).sum())", timeout_s=60)
    assert session.pull("total") == 56.0
    assert not session.out_of_step


def listening() -> set[tuple[str, int]]:
    """The addresses at which this process and those that it has started listen."""
    me = psutil.Process()
    return {
        (one.laddr.ip, one.laddr.port)
        for process in (me, *me.children(recursive=True))
        for one in process.net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    }


def connected(address: tuple[str, int], data: bytes) -> socket.socket:
    """A connection on which as much of this was sent as the other side has taken."""
    found = socket.create_connection(address)
    found.setblocking(False)
    with contextlib.suppress(OSError):  # it has hung up
        found.send(data)
    return found
