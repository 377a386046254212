"""A plan in the view on a page of its own: the pod as if it were there, and nothing that is not."""

from __future__ import annotations

from typing import Any

import jax
from conftest import OpenView
from jax.sharding import PartitionSpec as P
from playwright.sync_api import Page, expect

import nbdist
from nbdist.contract.wire import encode
from nbdist.rehearsal.array_plan import snapshot_of

TREE = {
    "up": jax.ShapeDtypeStruct((4096, 11008), "bfloat16"),
    "down": jax.ShapeDtypeStruct((11008, 4096), "bfloat16"),
    "bad": jax.ShapeDtypeStruct((8,), "float32"),
}
RULES = [("up", P("data", "model")), ("down", P("model", "data")), ("bad", P(None, "data"))]


def plain(topology: str, mesh: str, **options: Any) -> dict[str, Any]:
    """A plan as a frame has it."""
    found = snapshot_of(
        nbdist.plan(TREE, RULES, topology=topology, mesh=mesh, name="params", **options)
    )
    assert found is not None
    return encode(found)


def point_at(page: Page, x: int, y: int) -> None:
    page.locator(".nbdist-mesh-rings").first.hover(position={"x": x, "y": y}, force=True)


def test_the_pod_is_shown_as_planned_with_what_each_device_would_take(open_view: OpenView) -> None:
    page = open_view(plain("v5e:8x8", "data=8,model=8", memory="2MB"))
    header = page.locator(".nbdist-session-bar")
    expect(header).to_have_text("planned64 TPU v5 lite devices")
    expect(page.locator(".nbdist-session-foot")).to_have_text(
        "2 arrays planned, 172 MBNeeds 2.7 MB per device"
    )
    expect(page.locator(".nbdist-mesh-legend")).to_contain_text("memory of the planned arrays")
    expect(page.get_by_role("button", name="Show values")).to_be_hidden()
    notices = page.get_by_role("region", name="Notices")
    expect(notices).to_contain_text("It does not fit. 2.7 MB of 2 MB on each device.")
    expect(notices).to_contain_text(
        "Not in the picture: params['bad'], P(None, 'data') has 2 entries"
    )
    point_at(page, 100, 100)
    detail = page.get_by_role("region", name="Device")
    expect(detail).to_contain_text("coordinates(")
    expect(detail).to_contain_text("needs2.7 MB of 2 MB")
    expect(detail).not_to_contain_text("live")
    # A plan grows no older.
    page.wait_for_timeout(1200)
    expect(header).to_have_text("planned64 TPU v5 lite devices")


def test_the_largest_pod_is_drawn_host_by_host(open_view: OpenView) -> None:
    page = open_view(plain("v5p:16x20x28", "data=560,model=16"))
    expect(page.locator(".nbdist-session-bar")).to_have_text("planned8,960 TPU v5 devices")
    expect(page.locator(".nbdist-page-left")).to_contain_text(
        "one cell a host, 8,960 devices on 2,240 hosts"
    )
    point_at(page, 3, 3)
    detail = page.get_by_role("region", name="Device")
    expect(detail).to_contain_text("process 0: 4 devices")
