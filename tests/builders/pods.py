"""What stands in for Google in these tests: a metadata server on loopback, and TPU chips that are files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PREFIX = "/computeMetadata/v1/instance/attributes/"
TPU_ENV = "ACCELERATOR_TYPE: 'v4-16'\nNODE_ID: 'pod-1'\nZONE: 'us-central2-b'\nWORKER_ID: '1'\n"
GCE = {
    "agent-worker-number": "1",
    "worker-network-endpoints": "unknown:unknown:10.130.0.31,unknown:unknown:10.130.0.29",
    "accelerator-type": "v4-16",
    "tpu-env": TPU_ENV,
}
"""What worker 1 of a slice of two is told."""
MULTISLICE = {
    **GCE,
    "tpu-env": TPU_ENV + "MEGASCALE_COORDINATOR_ADDRESS: '10.130.0.7:8080'\n"
    "MEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '1'\n",
}


@contextmanager
def metadata_server(
    attributes: Mapping[str, str], *, flavor: str = "Google", status: int = 404
) -> Iterator[str]:
    """A metadata server on loopback; yields its address and port.

    Args:
      attributes: What it tells.
      flavor: Who it says it is.
      status: With which it answers for what it does not know.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers.get("Metadata-Flavor") == "Google"
            text = attributes.get(self.path.removeprefix(PREFIX)) if known else None
            self.send_response(status if text is None else 200)
            if flavor:
                self.send_header("Metadata-Flavor", flavor)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def with_pci_devices(root: Path, *devices: str) -> Path:
    """A file system whose PCI devices are Google's, of these ids; returned for convenience."""
    for number, device in enumerate(devices):
        folder = root / f"sys/bus/pci/devices/0000:00:0{number}.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x1ae0\n")
        (folder / "device").write_text(device + "\n")
    return root


V4 = "0x005e"
NETWORK_CARD = "0x0042"
