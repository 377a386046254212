"""Relays a host's network cable to the bridge, late or in part.

`python relay.py CABLE TAP BRIDGE NETWORK_SPACE [--delay-ms MS] [--only-port PORT [--of ADDRESS]]`, until
the end of input.
Many kernels lack netem, so each frame is read here from the cable (AF_PACKET), held, and written to a
TAP device in the bridge, and the other way round. A line on the output says that it works.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque

ALL_FRAMES = 3  # ETH_P_ALL
OUTGOING = 4  # PACKET_OUTGOING
PACKET_LEVEL, ADD_MEMBERSHIP, PROMISCUOUS = 263, 1, 1
NEW_NET = 0x40000000
SET_DRIVER = 0x8946  # SIOCETHTOOL
OFFLOADS = (0x17, 0x1F, 0x24)  # ETHTOOL_STXCSUM, _STSO, _SGSO
SET_TAP, TAP_WITHOUT_HEADER = 0x400454CA, 0x1002
IPV4, TCP = 0x0800, 6
BURST = 64


def send_whole_frames(space: str) -> None:
    """Has the host's end send frames as they are on a wire: complete with checksum, and not merged.

    AF_PACKET sees frames before the hardware, which there is none of here, would have done that.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(space, os.O_RDONLY)
    if libc.setns(there, NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {space}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for offload in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", offload, 0))
            request = struct.pack("16sP8x", b"eth0", ctypes.addressof(value))
            fcntl.ioctl(control, SET_DRIVER, request)
    if libc.setns(here, NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), "setns back")
    os.close(there)
    os.close(here)


def open_tap(name: str, bridge: str) -> int:
    """Makes a TAP device in the bridge; it is gone with this process."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, SET_TAP, struct.pack("16sH14x", name.encode(), TAP_WITHOUT_HEADER))
    subprocess.run(("ip", "link", "set", name, "master", bridge, "up"), check=True)
    return tap


def open_cable(name: str) -> socket.socket:
    """Opens this machine's end of the cable for all frames."""
    cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
    cable.bind((name, ALL_FRAMES))
    cable.setblocking(False)
    member = struct.pack("IHH8s", socket.if_nametoindex(name), PROMISCUOUS, 0, b"")
    cable.setsockopt(PACKET_LEVEL, ADD_MEMBERSHIP, member)
    return cable


def passes(frame: bytes, only_port: int | None, of: bytes | None = None) -> bool:
    """Whether a frame goes on: with `only_port`, no IPv4 does but TCP from or to that port.

    With `of`, an address, what is neither from nor to it goes on as well.
    """
    if only_port is None or int.from_bytes(frame[12:14], "big") != IPV4:
        return True
    if of is not None and of not in (frame[26:30], frame[30:34]):
        return True
    ports = 14 + (frame[14] & 15) * 4
    return frame[23] == TCP and only_port in struct.unpack_from("!HH", frame, ports)


class Relay:
    """Holds the frames of both directions, each for the same time."""

    def __init__(
        self,
        cable: socket.socket,
        tap: int,
        *,
        hold_s: float,
        only_port: int | None,
        of: bytes | None,
    ) -> None:
        self.cable, self.tap = cable, tap
        self.hold_s, self.only_port, self.of = hold_s, only_port, of
        self.to_cable: deque[tuple[float, bytes]] = deque()
        self.to_tap: deque[tuple[float, bytes]] = deque()

    def read_cable(self) -> None:
        for _ in range(BURST):
            frame, address = self.cable.recvfrom(65535)
            # What is written here is seen here again.
            if address[2] != OUTGOING and passes(frame, self.only_port, self.of):
                self.to_tap.append((time.monotonic() + self.hold_s, frame))

    def read_tap(self) -> None:
        for _ in range(BURST):
            frame = os.read(self.tap, 65535)
            if passes(frame, self.only_port, self.of):
                self.to_cable.append((time.monotonic() + self.hold_s, frame))

    def write_due(self) -> float:
        """Writes what was held long enough; the seconds until the next."""
        now = time.monotonic()
        while self.to_cable and self.to_cable[0][0] <= now:
            self.write(self.to_cable.popleft()[1], to_cable=True)
        while self.to_tap and self.to_tap[0][0] <= now:
            self.write(self.to_tap.popleft()[1], to_cable=False)
        due = [queue[0][0] for queue in (self.to_cable, self.to_tap) if queue]
        return max(0.0, min(due, default=now + 1.0) - time.monotonic())

    def write(self, frame: bytes, *, to_cable: bool) -> None:
        try:
            if to_cable:
                self.cable.send(frame)
            else:
                os.write(self.tap, frame)
        except OSError:
            pass  # The cable is cut or its queue full: lost, as on a wire.

    def run(self) -> None:
        """Relays until the end of input."""
        while True:
            ready, _, _ = select.select([sys.stdin, self.cable, self.tap], [], [], self.write_due())
            if sys.stdin in ready:
                return
            for source, read in ((self.cable, self.read_cable), (self.tap, self.read_tap)):
                if source in ready:
                    # It raises when there is no more for now, or the cable is cut.
                    with contextlib.suppress(OSError):
                        read()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("cable", "tap", "bridge", "space"):
        parser.add_argument(name)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--only-port", type=int)
    parser.add_argument("--of", type=socket.inet_aton)
    options = parser.parse_args()
    send_whole_frames(options.space)
    tap = open_tap(options.tap, options.bridge)
    cable = open_cable(options.cable)
    hold_s = options.delay_ms / 1e3
    relay = Relay(cable, tap, hold_s=hold_s, only_port=options.only_port, of=options.of)
    print("ready", flush=True)
    relay.run()


if __name__ == "__main__":
    main()
