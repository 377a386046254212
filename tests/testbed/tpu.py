"""Test hosts that look like workers of a TPU pod, as far as the finding of the pod goes; no TPU is there."""

from __future__ import annotations

from collections.abc import Sequence

from tests.testbed.hosts import HostError, TestBed

V4 = "0x005e"
"""The PCI device of a TPU v4 chip."""
VARIABLES = {"TPU_LIBRARY_PATH": "/etc/hosts", "JAX_PLATFORMS": "cpu"}
"""Any file passes for libtpu as long as nothing is computed on a TPU."""


def pod_metadata(
    workers: Sequence[str], index: int, *, name: str = "pod-1", more: str = ""
) -> dict[str, str]:
    """What the metadata server tells worker `index` of one slice.

    Args:
      workers: Names or addresses of the workers, in the pod's own order.
      index: Which of them is told.
      name: The TPU's.
      more: Further lines of `tpu-env`, such as `MEGASCALE_NUM_SLICES: '2'`.
    """
    return {
        "agent-worker-number": str(index),
        "worker-network-endpoints": ",".join(f"unknown:unknown:{each}" for each in workers),
        "accelerator-type": "v4-24",
        "tpu-env": f"ACCELERATOR_TYPE: 'v4-24'\nNODE_ID: '{name}'\nWORKER_ID: '{index}'\n{more}",
    }


def give_chips(bed: TestBed, i: int, *, count: int = 4, device: str = V4) -> None:
    """Shows host i this many PCI devices of Google's, until the host ends."""
    folder = "/sys/bus/pci/devices"
    made = bed.exec(
        *(i, "sh", "-ec"),
        f"""
        mount -t tmpfs none {folder}
        for number in $(seq {count}); do
            mkdir {folder}/0000:00:0$number.0
            echo 0x1ae0 > {folder}/0000:00:0$number.0/vendor
            echo {device} > {folder}/0000:00:0$number.0/device
            echo 0xff0000 > {folder}/0000:00:0$number.0/class
        done
        """,
    )
    if made.returncode != 0:
        raise HostError(f"Host h{i} got no chips: {made.stderr.strip()}")
