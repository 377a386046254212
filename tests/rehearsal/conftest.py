"""Devices of TPUs that are not there: libtpu compiles for them, and nothing runs."""

import os

import pytest

# libtpu would ask the metadata server of a cloud for the machine it is on.
os.environ["TPU_SKIP_MDS_QUERY"] = "1"
# It would lock the TPUs of this machine, of which there are none, against other processes of these tests.
os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

TOPOLOGIES = ("v5e:2x4", "v5p:2x2x2", "v6e:2x4")


@pytest.fixture(scope="session", params=TOPOLOGIES)
def topology(request):
    return request.param


@pytest.fixture(scope="session")
def devices(topology):
    from jax.experimental import topologies

    found = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    assert len(found) == 8
    return found


@pytest.fixture(scope="session", autouse=True)
def kept_folder(tmp_path_factory):
    """What was compiled before these tests is not theirs."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return folder / "nbdist" / "programs"
