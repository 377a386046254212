"""What compilers say of programs that do not fit, in the words of several versions."""

from __future__ import annotations

import pytest

from nbdist.program.compiled import refused

GB = 1024**3


@pytest.mark.parametrize(
    ("error", "required", "available"),
    [
        # jax 0.12.0.1, libtpu 0.0.50.1; jax 0.10.2, libtpu 0.0.42.1; on TPUs that are there
        (
            "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required "
            "for HLO temporaries (128.12G) exceeds available HBM (15.75G). HLO module: jit__lambda.",
            *(round(128.12 * GB), round(15.75 * GB)),
        ),
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (64.05G) "
            "exceeds available HBM (15.75G)",
            *(round(64.05 * GB), round(15.75 * GB)),
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used "
            "18.2G of 15.48G hbm. Exceeded hbm capacity by 2.72G.",
            *(round(18.2 * GB), round(15.48 * GB)),
        ),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123 bytes.", None, None),
    ],
)
def test_the_figures_are_those_of_the_text(error, required, available):
    program = refused(error, "jit_step")
    assert program is not None and program.refusal is not None
    assert (program.fits, program.name, program.memory) == (False, "jit_step", None)
    said = program.refusal
    assert (said.text, said.required, said.available) == (error, required, available)


@pytest.mark.parametrize(
    "error", ["INVALID_ARGUMENT: Invalid TPU external name", "RESOURCE_EXHAUSTED: too many files"]
)
def test_another_error_is_none_about_memory(error):
    assert refused(error) is None
