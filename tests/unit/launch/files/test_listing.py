"""Which of the user's files are to be on every host: what `--sync` names, what is left out, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbdist.errors import OptionError
from nbdist.launch import files as listing
from nbdist.launch.files import Hashes, left_out_text, sources, walk
from nbdist.launch.files.sync import Files


def names(*paths: Path) -> list[str]:
    return sorted(walk(sources([str(path) for path in paths])).files)


def test_folders_of_tools_and_virtual_environments_stay_here(project: Path) -> None:
    for name in (*listing.IGNORED, "pkg/__pycache__", "env"):
        (project / name).mkdir(parents=True, exist_ok=True)
        (project / name / "x").write_text("")
    (project / "env" / "pyvenv.cfg").write_text("")
    assert names(project) == ["project/data.txt", "project/model.py", "project/pkg/__init__.py"]


def test_a_package_and_a_file_keep_the_name_they_are_imported_by(project: Path) -> None:
    package, file = project / "pkg", project / "model.py"
    assert names(package, file) == ["model/model.py", "pkg/pkg/__init__.py"]
    assert [source.base for source in sources([str(package), str(file)])] == [project, project]


def test_sources_of_the_same_name_lie_beside_each_other(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "project"
    other.mkdir(parents=True)
    (other / "b.py").write_text("")
    found = sources([str(project), str(other), str(project)])
    assert [source.name for source in found] == ["project", "project-2"]


def test_links_are_followed_within_the_folder_and_no_further(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("no")
    (project / "inside.py").symlink_to("model.py")
    (project / "pkg" / "up").symlink_to("..")
    (project / "outside").symlink_to(tmp_path)
    (project / "secret").symlink_to(tmp_path / "secret.txt")
    (project / "nowhere").symlink_to("missing")
    tree = walk(sources([str(project)]))
    assert "project/inside.py" in tree.files
    assert not [name for name in tree.files if "secret" in name or "up/" in name]
    assert left_out_text(tree.left_out) == (
        f"not copied: project/outside (a link out of {project}), "
        f"project/secret (a link out of {project})"
    )


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_a_file_over_50_mb_is_left_out_and_named(project: Path) -> None:
    sparse(project / "weights.bin", (50 << 20) + 1)
    tree = walk(sources([str(project)]))
    assert "project/weights.bin" not in tree.files
    assert left_out_text(tree.left_out) == "not copied: project/weights.bin (50 MB)"


def test_more_than_500_mb_are_refused_with_where_they_lie(project: Path) -> None:
    (project / "images").mkdir()
    for number in range(11):
        sparse(project / "images" / f"{number}", 48 << 20)
    with pytest.raises(OptionError, match=r"more than 500 MB.*images/ 5\d\d MB.*nothing was sent"):
        Files(sources([str(project)]))


def test_too_many_files_are_refused_before_all_are_seen(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "ALL_FILES", 2)
    with pytest.raises(OptionError, match="or 2 files"):
        walk(sources([str(project)]))


@pytest.mark.parametrize("name", ["missing", "data.txt"])
def test_what_is_no_module_cannot_be_named(name: str, project: Path) -> None:
    with pytest.raises(OptionError, match=rf"--sync .*{name}"):
        sources([str(project / name)])


def test_contents_are_read_again_only_when_they_may_have_changed(project: Path) -> None:
    path, hashes = project / "model.py", Hashes()

    def digest() -> str | None:
        return hashes.of(walk(sources([str(path)])).files["model/model.py"])

    os.utime(path, (1e9, 1e9))
    old = digest()
    path.write_text("width = 2\n")
    os.utime(path, (1e9, 1e9))
    assert digest() == old  # as good as any: the same size, and a time long past
    path.write_text("width = 3\n")
    new = digest()
    assert new != old
    # Within the same tick of the clock a file may change without another time.
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text("width = 4\n")
    os.utime(path, ns=times)
    assert digest() != new


def test_the_copy_of_the_working_folder_is_the_one_it_lies_in(
    project: Path, tmp_path: Path
) -> None:
    files = Files(sources([str(project)]))
    assert files.remote_cwd(project) == "project"
    assert files.remote_cwd(project / "pkg") == "project/pkg"
    assert files.remote_cwd(tmp_path) == "project"
