"""Names with ranges in brackets: one by one, from random lists and back, and as Slurm itself reads them."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from nbdist.launch.model.hosts import compress, read_pattern, split_names


def expand(text: str) -> list[str]:
    return [name for part in split_names(text) for name in read_pattern(part)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" , ", []),
        ("a, b ,", ["a", "b"]),
        ("n[1,2],m[3],o", ["n[1,2]", "m[3]", "o"]),
        ("r[1,2]n[3,4]:2,x", ["r[1,2]n[3,4]:2", "x"]),
        ("[::1]:2,b", ["[::1]:2", "b"]),
        ("n[1,2", ["n[1,2"]),
        ("n1],b", ["n1]", "b"]),
    ],
)
def test_commas_in_brackets_part_nothing(text: str, parts: list[str]) -> None:
    assert split_names(text) == parts


def test_the_number_of_names_is_known_before_there_are_any() -> None:
    pattern = read_pattern("r[01-10]n[1-9:2,20]x")
    assert len(pattern) == len(list(pattern)) == 60
    assert list(pattern)[:7] == [*(f"r01n{n}x" for n in (1, 3, 5, 7, 9, 20)), "r02n1x"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["h"], "h"),
        (["n1", "n2", "n3", "n5"], "n[1-3,5]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n9", "n10", "n010", "n011"], "n[9-10,010-011]"),
        (["n1", "m", "m", "n2"], "n1,m,m,n2"),
        (["n2", "n1"], "n[2,1]"),
        (["a1.x", "a2.x"], "a1.x,a2.x"),
    ],
)
def test_neighbours_are_put_together(names: list[str], text: str) -> None:
    assert compress(names) == text
    assert expand(text) == names


def random_names(seed: int) -> list[str]:
    """Runs of numbers with and without zeros in front, in ranks and files, in any order, some of them twice."""
    chance = random.Random(seed)
    names: list[str] = []
    for _ in range(chance.randint(1, 12)):
        prefix = chance.choice(["n", "node-", "r1n", "r2n", "h.", "login", "10.0.0.", "0"])
        width, first = chance.choice([0, 1, 2, 3, 5]), chance.choice([0, 1, 8, 9, 95, 99, 998])
        run = range(first, first + chance.randint(0, 12))
        names += [prefix + str(number).zfill(width) for number in run] or [prefix]
    if chance.random() < 0.5:
        chance.shuffle(names)
    return names


@pytest.mark.parametrize("seed", range(100))
def test_random_lists_come_back_as_they_were(seed: int) -> None:
    names = random_names(seed)
    assert expand(compress(names)) == names


# It has no steps, and older versions have nothing behind the last bracket.
SLURMS = [
    "node[01-64,70]",
    "rack[1-2]n[1-4]",
    "n[01-100]",
    "n[098-101]",
    "n[9-011]",
    "n[01,1]",
    "n[3,1-2]",
    "n[1-2],m3,o[4]",
    "a[1-2]b[01-02]c[7,9]",
    "10.0.0.[1-4]",
    "[1-3]",
    *(compress(random_names(seed)) for seed in range(10)),
]


@pytest.fixture(scope="module")
def slurm_reads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration that `scontrol` asks for before it reads a list; no daemon is asked."""
    if shutil.which("scontrol") is None:
        pytest.skip("there is no scontrol here")
    path = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    path.write_text("ClusterName=x\nSlurmctldHost=h\nNodeName=n\nPartitionName=p Nodes=n\n")
    return path


@pytest.mark.parametrize("text", SLURMS)
def test_a_list_stands_for_the_names_that_slurm_reads(text: str, slurm_reads: Path) -> None:
    done = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        env={"SLURM_CONF": str(slurm_reads)},
        capture_output=True,
        text=True,
        check=True,
    )
    ours, theirs = expand(text), done.stdout.split()
    assert sorted(ours) == sorted(theirs)
    # Of three brackets Slurm 22.05 counts up the first before the second.
    assert ours == theirs or text.count("[") > 2
