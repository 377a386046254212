"""The pod that a person typed."""

from __future__ import annotations

import pytest

from nbdist.errors import OptionError
from nbdist.rehearsal.run.asked import AskedPod, read_asked


@pytest.mark.parametrize(
    ("topology", "mesh", "slices", "asked"),
    [
        (
            "v5e-16",
            "data=4,model=4",
            1,
            AskedPod(topology="v5e:4x4", slices=1, mesh="data=4,model=4"),
        ),
        ("v5e:4x4", "data=-1", 2, AskedPod(topology="v5e:4x4", slices=2, mesh="data=32")),
        ("v5p-8", None, 1, AskedPod(topology="v5p:2x2x1", slices=1, mesh=None)),
    ],
)
def test_names_and_open_axes_are_read(topology, mesh, slices, asked):
    read = read_asked(topology, mesh, slices=slices)
    assert (read.slices, read.mesh) == (asked.slices, asked.mesh)
    assert read == read_asked(read.topology, read.mesh, slices=slices)


@pytest.mark.parametrize(
    ("topology", "mesh", "said"),
    [
        ("v5e:3x3", None, "no topology 'v5e:3x3' is known"),
        ("4x4", None, "names no chip.*v5e:4x4"),
        (
            "v5e:4x4",
            "data=4,model=2",
            "has 8 devices, v5e:4x4 has 16. These would fit: data=4,model=4",
        ),
        ("v5e:4x4", "data", "cannot read 'data'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(topology, mesh, said):
    with pytest.raises(OptionError, match=said):
        read_asked(topology, mesh)
