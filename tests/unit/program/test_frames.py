"""The line of the user's code that an instruction comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

import nbdist
from nbdist.program.hlo import FrameTables, Module, SourceLine, is_users

TEXT = """HloModule jit_step

FileNames
1 "/tmp/ipykernel_12/345.py"
2 "/home/user/.venv/lib/python3.13/site-packages/flax/linen/linear.py"
3 "train.py"

FunctionNames
1 "<module>"
2 "Dense.__call__"
3 "step"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=4 end_line=4 column=1 end_column=2}}
2 {{file_name_id=3 function_name_id=3 line=7 end_line=7 column=1 end_column=2}}
3 {{file_name_id=2 function_name_id=2 line=90 end_line=90 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 {0}}}
2 {{file_location_id=2 {1}}}
3 {{file_location_id=3 {2}}}


ENTRY %main (p: f32[]) -> f32[] {{
  ROOT %p = f32[] parameter(0)
}}
"""
SHIFTED = ("parent_frame_id=1", "parent_frame_id=2", "parent_frame_id=3")
PLAIN = ("", "parent_frame_id=1", "parent_frame_id=2")
ZERO = ("parent_frame_id=0", "parent_frame_id=1", "parent_frame_id=2")


@pytest.mark.parametrize("parents", [SHIFTED, PLAIN, ZERO])
def test_frames_of_libraries_are_passed_over(parents):
    frames = FrameTables(Module(TEXT.format(*parents)))
    attributes = ', metadata={op_name="jit(step)/dot_general" stack_frame_id=3}'
    assert frames.source(attributes) == SourceLine("jit(step)/dot_general", "train.py", 7, "step")


def test_where_all_frames_are_libraries_the_innermost_is_named():
    text = TEXT.replace("/tmp/ipykernel_12/345.py", "/x/site-packages/a.py")
    frames = FrameTables(
        Module(text.replace('"train.py"', '"/x/site-packages/b.py"').format(*SHIFTED))
    )
    found = frames.source("stack_frame_id=3")
    assert (found.file.rpartition("/")[2], found.line) == ("linear.py", 90)


def test_nbdist_which_calls_the_compiler_is_passed_over():
    trace = str(Path(nbdist.__file__).parent / "pod" / "trace.py")
    found = FrameTables(Module(TEXT.replace("train.py", trace).format(*SHIFTED)))
    assert found.source("stack_frame_id=3") == SourceLine(
        "", "/tmp/ipykernel_12/345.py", 4, "<module>"
    )


def test_a_cell_of_a_notebook_is_a_file():
    found = FrameTables(Module(TEXT.format(*SHIFTED))).source("stack_frame_id=1")
    assert (found.file, found.line, found.function) == ("/tmp/ipykernel_12/345.py", 4, "<module>")


@pytest.mark.parametrize(
    ("attributes", "source"),
    [
        ("", SourceLine()),
        ("stack_frame_id=9", SourceLine()),
        (', metadata={op_name="a"}', SourceLine("a")),
        (', metadata={op_name="a" source_file="t.py" source_line=3}', SourceLine("a", "t.py", 3)),
    ],
)
def test_what_has_no_frame_has_no_line(attributes, source):
    assert FrameTables(Module(TEXT.format(*SHIFTED))).source(attributes) == source


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/u/train.py", True),
        ("/tmp/ipykernel_12/345.py", True),
        ("", False),
        ("<frozen runpy>", False),
        ("/usr/lib/python3.12/functools.py", False),
        ("/usr/lib64/python3.11/contextlib.py", False),
        ("/home/u/env/lib/python3.13/site-packages/jax/__init__.py", False),
        (nbdist.__file__, False),
    ],
)
def test_a_file_is_the_users_unless_it_is_part_of_a_library(file: str, users: bool) -> None:
    assert is_users(file) is users
