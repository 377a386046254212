"""What JAX itself detects in an environment, asked in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

ASK = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from jax._src.clusters import ClusterEnv

def taken(cluster):
    return {"method": cluster.name, "local_process_id": cluster.get_local_process_id()}

def detected(environment):
    os.environ.clear()
    os.environ.update(environment)
    kinds = [kind for kind in ClusterEnv._cluster_types if not kind.opt_in_only_method]
    found = next((kind for kind in kinds if kind.is_env_present()), None)
    try:
        return None if found is None else taken(found)
    except Exception:
        return {"method": found.name}

asked = json.load(sys.stdin)
names = [kind.name for kind in ClusterEnv._cluster_types]
print(json.dumps({"names": names, "found": [detected(each) for each in asked]}))
"""


def ask_jax(environments: Sequence[Mapping[str, str]], *, on_tpu: bool) -> dict[str, Any]:
    """JAX's names of clusters in its order, and the cluster and device that it takes in each environment.

    Private API: `jax._src.clusters.ClusterEnv`, since JAX says what it detects nowhere else. When it is gone,
    the tests that call this fail, and `nbdist/launch/detection.py` has to be read against the new JAX.

    Args:
      environments: Variables of a process each.
      on_tpu: Whether JAX is told, when it is imported, that it runs on a machine with TPUs.
    """
    variables = {"PATH": os.environ["PATH"], "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps([dict(each) for each in environments]),
        env={**variables, **({"JAX_FORCE_TPU_INIT": "1"} if on_tpu else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
