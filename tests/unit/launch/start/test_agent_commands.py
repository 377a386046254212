"""Which of this kernel's variables agents on other hosts get."""

from __future__ import annotations

from nbdist.launch.start.agent_commands import forwarded


def test_variables_of_frameworks_are_forwarded_and_secrets_are_not() -> None:
    kept = {"JAX_ENABLE_X64": "1", "XLA_FLAGS": "--x", "JAX_LEGACY_PRNG_KEY": "allow", "TF_X": ""}
    left = {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "s",
        "TF_API_TOKEN": "s",
        "KERAS_HUB_PASSWORD": "s",
        "TPU_API_KEY": "s",
        "TF_CONFIG": "{}",
        "JAX_LOCAL_DEVICE_IDS": "0",
        "TPU_VISIBLE_DEVICES": "0",
    }
    assert forwarded({**kept, **left}) == kept
