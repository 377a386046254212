"""The site is built, without the network; a dead link or reference would be an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

STRICT = ("-W", "--keep-going", "-n", "-q")
OFF = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Runs Sphinx as `make docs` does, where nothing outside can be reached through a proxy."""
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *STRICT, str(source), str(out)],
        cwd=ROOT,
        env={**os.environ, **OFF},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    out = tmp_path_factory.mktemp("site")
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr
    return out


def test_the_site_is_built_without_a_warning(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag in ('<script src="http', '<link rel="stylesheet" href="http', '<img src="http'):
            assert tag not in text, f"{page.name}: {tag}"


def test_every_option_of_a_start_is_in_the_reference(site: Path) -> None:
    from nbdist.launch.model.start_options import FLAGS

    text = (site / "reference" / "options.html").read_text(encoding="utf-8")
    for name, flag in FLAGS.items():
        assert flag.name in text and f"{name}=" in text, name


@pytest.fixture
def one_page(tmp_path: Path) -> Path:
    """A site of one page, built as the real one is."""
    shutil.copytree(DOCS / "_static", tmp_path / "_static")
    for name in ("conf.py", "generate.py"):
        shutil.copy(DOCS / name, tmp_path / name)
    return tmp_path / "index.md"


def test_dead_links_and_references_fail(one_page: Path, tmp_path: Path) -> None:
    good = "# Index\n\n[here](#index)\n"
    one_page.write_text(good, encoding="utf-8")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    wrong = ("[gone](how-to/nowhere.md)", "[gone](#not-there)", "{py:func}`nbdist.nothing`")
    one_page.write_text(good + "\n\n".join(wrong), encoding="utf-8")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    for said in ("nowhere.md", "not-there", "nbdist.nothing"):
        assert said in done.stderr


def test_a_mark_that_names_no_part_of_the_code_fails(one_page: Path, tmp_path: Path) -> None:
    one_page.write_text("# Index\n\n<!-- generated: nothing -->\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    assert "nothing" in done.stderr
