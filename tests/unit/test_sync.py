"""The user's files on other machines: what is listed, what is sent, and what a host refuses to do."""

from __future__ import annotations

import base64
import errno
import hashlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist import options
from nbdist.engine import anew
from nbdist.engine.sync import FOLDER, Copies, Refused, checked, imported, put_on_path
from nbdist.errors import OptionError, SyncError
from nbdist.launch import files as listing
from nbdist.launch.files import Hashes, left_out_text, sources, walk
from nbdist.launch.parent import Parent, Reach
from nbdist.launch.reach import forwarded
from nbdist.launch.sync import FIRST, Copied, Files, HostCopy

OUTSIDE = ["../x", "a/../../x", "/etc/x", "", ".", "..", "a//b", "./a", "a/", "a\0b", None, 3]


class Told:
    """What a parent would write to the kernel."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def tell(self, event: str, **facts: object) -> None:
        self.events.append({"event": event, **facts})


class Remote:
    """A parent on another machine, as the kernel holds it, whose orders are obeyed at once in a folder here."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir()
        self.reach = SimpleNamespace(name=name)
        self.facts = {None: SimpleNamespace(host=name, cwd="/", folder=str(folder))}
        self.ended_at: float | None = None
        self.told = Told()
        self.copying = self.told.events
        self.copies = Copies(str(folder), self.told)  # type: ignore[arg-type]
        self.root = folder / FOLDER
        self.sent: list[str] = []

    def poll(self) -> int | None:
        return None

    def order(self, order: dict[str, Any]) -> None:
        if "file" in order["sync"]:
            self.sent.append(order["sync"]["file"])
        self.copies.obey(order["sync"])

    def held(self) -> dict[str, str]:
        """The copy's files, with what is in them."""
        paths = [p for p in self.root.rglob("*") if p.is_file()]
        return {str(p.relative_to(self.root)): p.read_text() for p in sorted(paths)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "model.py").write_text("width = 1\n")
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "data.txt").write_text("1 2 3\n")
    return folder


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote("h1", tmp_path / "h1")


def begin(files: Files, *remotes: Remote) -> Copied:
    """The copying of a start."""
    files.begin({remote.reach.name: remote for remote in remotes})  # type: ignore[misc]
    until = time.monotonic() + 10
    while any(sending.running for sending in files._sendings) and time.monotonic() < until:
        time.sleep(0.01)
    return files.first()


def again(files: Files, *remotes: Remote) -> Copied:
    for remote in remotes:
        remote.sent.clear()
    return files.sync({remote.reach.name: remote for remote in remotes})  # type: ignore[misc]


def send(copies: Copies, name: str, content: bytes, mode: int = 0o644) -> None:
    """One file to a copy, without a kernel."""
    digest = hashlib.sha256(content).hexdigest()
    copies.obey({"id": name, "files": [[name, len(content), mode, digest]]})
    data = base64.b64encode(content).decode()
    copies.obey({"id": name, "file": name, "data": data, "sha256": digest})
    copies.obey({"id": name, "commit": True})


# -- what a host refuses -----------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_out_of_the_copy_is_refused_and_nothing_is_written(
    name: object, remote: Remote, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Refused):
        checked(name)
    remote.copies.obey({"id": "a", "files": [[name, 1, 0o644, "0" * 64]]})
    remote.copies.obey({"id": "a", "file": name, "data": "eA==", "sha256": "0" * 64})
    remote.copies.obey({"id": "a", "commit": True})
    assert [event["event"] for event in remote.told.events] == ["sync"]
    assert "error" in remote.told.events[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_was_not_announced_is_refused(remote: Remote) -> None:
    remote.copies.obey({"id": "a", "files": []})
    remote.copies.obey({"id": "a", "file": "p/x.py", "data": "eA==", "sha256": "0"})
    assert "not announced" in remote.told.events[-1]["error"]
    assert not remote.root.exists()


def test_nothing_is_written_through_a_link_that_a_cell_has_made(
    remote: Remote, tmp_path: Path
) -> None:
    send(remote.copies, "p/x.py", b"x = 1\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (remote.root / "p" / "link").symlink_to(outside)
    send(remote.copies, "p/link/y.py", b"y = 1\n")
    assert "is a link" in remote.told.events[-1]["error"]
    assert list(outside.iterdir()) == []


def test_a_file_that_arrives_otherwise_than_it_was_sent_replaces_nothing(remote: Remote) -> None:
    send(remote.copies, "p/x.py", b"x = 1\n")
    remote.copies.obey({"id": "b", "files": [["p/x.py", 6, 0o644, "0" * 64]]})
    remote.copies.obey({"id": "b", "file": "p/x.py", "data": "eA==", "sha256": "0" * 64})
    assert "not arrived as it was sent" in remote.told.events[-1]["error"]
    assert remote.held() == {"p/x.py": "x = 1\n"}
    assert [path.name for path in remote.root.parent.iterdir()] == [FOLDER]


def test_a_list_whose_files_have_not_all_arrived_is_not_put_in_place(remote: Remote) -> None:
    send(remote.copies, "p/x.py", b"x = 1\n")
    remote.copies.obey({"id": "b", "files": [["p/y.py", 1, 0o644, "0" * 64]]})
    remote.copies.obey({"id": "b", "commit": True})
    assert remote.told.events[-1]["error"] == "p/y.py has not arrived"
    assert remote.held() == {"p/x.py": "x = 1\n"}


def test_permissions_beyond_those_of_files_are_not_taken_over(remote: Remote) -> None:
    send(remote.copies, "p/run", b"", mode=0o104755)
    assert (remote.root / "p" / "run").stat().st_mode & 0o7777 == 0o755


# -- from a folder here to its copy there --------------------------------------------------------


def test_everything_is_sent_at_first_and_only_what_has_changed_after_that(
    project: Path, remote: Remote
) -> None:
    (project / "data.txt").chmod(0o640)
    files = Files(sources([str(project)]))
    first = begin(files, remote)
    assert first.hosts == {"h1": HostCopy(sent=3, unchanged=0, removed=0)}
    assert remote.held() == {
        "project/data.txt": "1 2 3\n",
        "project/model.py": "width = 1\n",
        "project/pkg/__init__.py": "",
    }
    assert (remote.root / "project/data.txt").stat().st_mode & 0o777 == 0o640

    (project / "model.py").write_text("width = 2\n")
    (project / "new.py").write_text("")
    done = again(files, remote)
    assert remote.sent == ["project/model.py", "project/new.py"]
    assert done.hosts == {"h1": HostCopy(sent=2, unchanged=2, removed=0)}
    assert done.changed == {"project/model.py"}
    assert remote.held()["project/model.py"] == "width = 2\n"

    assert again(files, remote).hosts == {"h1": HostCopy(sent=0, unchanged=4, removed=0)}
    assert remote.sent == []


def test_a_change_of_mode_alone_sends_nothing_and_arrives(project: Path, remote: Remote) -> None:
    files = Files(sources([str(project)]))
    begin(files, remote)
    (project / "data.txt").chmod(0o755)
    assert again(files, remote).hosts["h1"].sent == 0
    assert (remote.root / "project/data.txt").stat().st_mode & 0o777 == 0o755


def test_what_is_deleted_here_goes_there_and_what_cells_wrote_stays(
    project: Path, remote: Remote
) -> None:
    files = Files(sources([str(project)]))
    begin(files, remote)
    (remote.root / "project/result.txt").write_text("of a cell")
    (project / "model.py").unlink()
    (project / "pkg" / "__init__.py").unlink()
    assert again(files, remote).hosts["h1"].removed == 2
    assert remote.held() == {"project/data.txt": "1 2 3\n", "project/result.txt": "of a cell"}
    assert not (remote.root / "project/pkg").exists()


def test_a_file_that_a_cell_has_changed_there_is_sent_again(project: Path, remote: Remote) -> None:
    files = Files(sources([str(project)]))
    begin(files, remote)
    (remote.root / "project/model.py").write_text("width = 9\n")
    assert again(files, remote).changed == {"project/model.py"}
    assert remote.held()["project/model.py"] == "width = 1\n"


def test_a_file_may_become_a_folder_and_a_folder_a_file(project: Path, remote: Remote) -> None:
    files = Files(sources([str(project)]))
    begin(files, remote)
    (project / "data.txt").unlink()
    (project / "data.txt").mkdir()
    (project / "data.txt" / "a").write_text("a")
    (project / "pkg" / "__init__.py").unlink()
    (project / "pkg").rmdir()
    (project / "pkg").write_text("now a file")
    again(files, remote)
    assert remote.held() == {
        "project/data.txt/a": "a",
        "project/model.py": "width = 1\n",
        "project/pkg": "now a file",
    }


def test_byte_code_of_an_older_source_of_the_same_size_and_second_is_not_used(
    project: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(sources([str(project)]))
    begin(files, remote)
    copy = remote.root / "project/model.py"
    os.utime(copy, (1e9, 1e9))
    remote.copies._kept["project/model.py"] = type(remote.copies._kept["project/model.py"])(
        remote.copies._kept["project/model.py"].wanted,
        (copy.stat().st_ino, copy.stat().st_size, copy.stat().st_mtime_ns),
    )
    monkeypatch.setattr(sys, "path", [str(copy.parent), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    model = importlib.import_module("model")
    try:
        assert list(copy.parent.glob("__pycache__/model.*.pyc"))
        (project / "model.py").write_text("width = 2\n")
        again(files, remote)
        os.utime(copy, (1e9, 1e9))
        importlib.invalidate_caches()
        assert importlib.reload(model).width == 2
        assert imported([str(copy), str(copy.parent / "other.py")]) == ["model"]
    finally:
        del sys.modules["model"]


def test_a_module_that_has_come_is_found_although_its_folder_looks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("has_come")
    before = tmp_path.stat()
    (tmp_path / "has_come.py").write_text("")
    # As on a file system whose clock has gone no further.
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    imported([])
    importlib.import_module("has_come")
    del sys.modules["has_come"]


def test_a_host_that_cannot_write_keeps_the_old_files_and_is_named(
    project: Path, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Remote("h2", tmp_path / "h2")
    files = Files(sources([str(project)]))
    begin(files, remote, other)
    (project / "model.py").write_text("width = 2\n")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(remote.copies, "_write", full)
        with pytest.raises(SyncError, match=r"host h1: No space left on device.*h2 has the new"):
            again(files, remote, other)
    assert remote.held()["project/model.py"] == "width = 1\n"
    assert other.held()["project/model.py"] == "width = 2\n"
    assert again(files, remote, other).hosts == {
        "h1": HostCopy(sent=1, unchanged=2, removed=0),
        "h2": HostCopy(sent=0, unchanged=3, removed=0),
    }


def test_a_file_that_goes_while_files_are_sent_is_left_out(
    project: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(sources([str(project)]))
    of = files._hashes.of

    def of_and_gone(file: listing.File) -> str | None:
        digest = of(file)
        if file.name == "project/model.py":
            file.path.unlink()
        return digest

    monkeypatch.setattr(files._hashes, "of", of_and_gone)
    assert begin(files, remote).hosts["h1"].sent == 2
    assert sorted(remote.held()) == ["project/data.txt", "project/pkg/__init__.py"]


def test_a_large_file_arrives_in_pieces(
    project: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbdist.launch.sync.PIECE_BYTES", 4)
    (project / "data.txt").write_text("0123456789")
    begin(Files(sources([str(project)])), remote)
    assert remote.sent.count("project/data.txt") == 3
    assert remote.held()["project/data.txt"] == "0123456789"


# -- what is listed ------------------------------------------------------------------------------


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
    assert files.folder_there(project) == "project"
    assert files.folder_there(project / "pkg") == "project/pkg"
    assert files.folder_there(tmp_path) == "project"


# -- what is said --------------------------------------------------------------------------------


def test_hosts_with_the_same_done_share_a_line_and_old_modules_are_named() -> None:
    same = HostCopy(sent=2, unchanged=41, removed=0)
    done = Copied(
        hosts={"h1": same, "h2": same, "h3": HostCopy(sent=43, unchanged=0, removed=1)},
        files=43,
        seconds=0.1,
        left_out=("p/big (60 MB)",),
        old={"model": (0, 1, 2, 3), "pkg.layers": (2,)},
    )
    assert done.text().splitlines() == [
        "h1, h2   2 files sent, 41 unchanged, 0.1 s",
        "h3   43 files sent, 1 removed, 0.1 s",
        "not copied: p/big (60 MB)",
        "already imported: model (processes 0–3), pkg.layers (process 2); importlib.reload(model) in a cell takes "
        "the new one, and so does autoreload",
    ]


def test_this_machine_alone_needs_no_copy(project: Path) -> None:
    files = Files(sources([str(project)]))
    (project / "model.py").write_text("width = 2\n")
    begin(files)
    assert again(files).text() == "this machine   3 files, read where they are"
    assert files.here == [str(project)]


# -- the environment -----------------------------------------------------------------------------


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


def test_a_name_alone_forwards_the_value_it_has_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "a=b")
    monkeypatch.delenv("NOT_SET", raising=False)
    assert options.environment(["HUB_TOKEN", "A=", "B=1=2"]) == {
        "HUB_TOKEN": "a=b",
        "A": "",
        "B": "1=2",
    }
    with pytest.raises(OptionError, match="--env NOT_SET: this kernel has no such variable"):
        options.environment(["NOT_SET"])


def test_variables_that_count_at_the_start_only_are_known_to_come_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/a")
    assert anew.too_late({"PYTHONPATH": "/b"})
    assert anew.too_late({"LD_PRELOAD": "x"})
    assert not anew.too_late({"PYTHONPATH": "/a", "JAX_ENABLE_X64": "1"})
    monkeypatch.setattr(sys, "argv", ["host", anew.OPTION, "3"])
    assert not anew.too_late({"PYTHONPATH": "/b"})


@pytest.fixture
def clean_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/others")
    yield


def test_folders_of_modules_come_first_also_for_what_a_process_starts(clean_path: None) -> None:
    put_on_path(["/one", "/two"])
    assert sys.path[:2] == ["/one", "/two"]
    assert os.environ["PYTHONPATH"] == os.pathsep.join(["/one", "/two", "/others"])
    put_on_path([])
    assert sys.path[:2] == ["/one", "/two"]


# -- a host that takes no more -------------------------------------------------------------------


class Stuck:
    """A channel in which an order is never taken."""

    pid = 0
    running = True
    left = False
    status = None

    def __init__(self) -> None:
        self.entered, self.free = threading.Event(), threading.Event()
        self.killed = False

    def ready(self) -> bool:
        return False

    def send(self, line: bytes) -> None:
        self.entered.set()
        self.free.wait(20)

    def kill(self) -> None:
        self.killed = True
        self.free.set()


def test_neither_a_ping_nor_the_end_waits_for_an_order_that_nobody_takes(tmp_path: Path) -> None:
    channel = Stuck()
    parent = Parent(
        Reach(name="h1", remote=True),
        channel,  # type: ignore[arg-type]
        log=tmp_path / "log",
        on_event=lambda event: None,
    )
    parent.beat()  # no room for it, and nothing is written
    assert not channel.entered.is_set()
    sender = threading.Thread(target=parent.order, args=({"sync": {}},))
    sender.start()
    assert channel.entered.wait(10)
    parent.beat()
    assert not channel.free.is_set()
    parent.begin_to_stop()
    assert channel.killed
    sender.join(10)
    assert not sender.is_alive()


def test_the_copying_of_a_start_has_a_name_that_later_ones_have_not(
    project: Path, remote: Remote
) -> None:
    files = Files(sources([str(project)]))
    begin(files, remote)
    assert {event["id"] for event in remote.told.events} == {FIRST}
    again(files, remote)
    ids = {event["id"] for event in remote.told.events}
    again(files, remote)
    assert FIRST not in ids
    assert not ids & {event["id"] for event in remote.told.events}
