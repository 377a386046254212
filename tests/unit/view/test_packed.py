"""What a notebook keeps of a picture is small, also of the largest pod."""

from __future__ import annotations

import base64
import gzip
import json

import jax
from jax.sharding import PartitionSpec as P

import nbdist
from nbdist.contract.page import MIME_TYPE, plain
from nbdist.view.widget import View, packed


def test_the_largest_pod_with_a_thousand_arrays_is_small_in_a_notebook():
    weights = jax.ShapeDtypeStruct((8960, 8960), "bfloat16")
    blocks = [{"up": weights, "down": weights} for _ in range(500)]
    plan = nbdist.plan(
        {"blocks": blocks},
        [("up", P("data", "model")), ("down", P("model", "data"))],
        topology="v5p:16x20x28",
        mesh="data=560,model=16",
    )
    picture = plan.picture()
    assert picture is not None
    frame = picture._feed.whole
    assert (len(frame.snapshot["devices"]), len(frame.snapshot["arrays"])) == (8960, 1000)
    text = packed(frame)
    assert json.loads(gzip.decompress(base64.b64decode(text))) == plain(frame)
    data, _ = View(picture._feed, view_id="v")._repr_mimebundle_()
    assert data[MIME_TYPE]["packed"] == text
    # As notebooks are written; as it is it would be 3.4 MB.
    assert len(json.dumps([data, picture._bundle()], indent=1)) < 500_000
