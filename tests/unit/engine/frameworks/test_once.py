"""What is added to errors of a framework about what `%dist_init` has done already."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.engine.frameworks.jax.start import explain_late_devices


def config() -> Any:
    def update(name: str, value: object) -> None:
        if value != "allowed":
            raise RuntimeError(f"{name} config should be updated before backends are initialized")

    made = SimpleNamespace(update=update)
    explain_late_devices(made)
    return made


def test_another_number_of_devices_is_refused_with_what_to_type() -> None:
    with pytest.raises(RuntimeError, match="before backends are initialized") as raised:
        config().update("jax_num_cpu_devices", 8)
    (note,) = raised.value.__notes__
    assert "%dist_shutdown, then %dist_init --devices-per-process 8" in note


def test_other_settings_are_refused_as_jax_does_and_allowed_ones_pass() -> None:
    with pytest.raises(RuntimeError) as raised:
        config().update("jax_platforms", "tpu")
    assert not hasattr(raised.value, "__notes__")
    config().update("jax_num_cpu_devices", "allowed")
