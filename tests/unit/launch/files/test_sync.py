"""The user's files on other machines: what is sent, what is said of it, and what a host refuses to do."""

from __future__ import annotations

import base64
import errno
import hashlib
import importlib
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.agent.sync import FOLDER, FileCopies, RefusedOrder, checked
from nbdist.contract.events import FileEvent, FilesFailed
from nbdist.contract.orders import (
    CommitFiles,
    FileOrder,
    ListedFile,
    ListFiles,
    WriteFile,
)
from nbdist.engine.kernel.engine_calls import imported_from
from nbdist.errors import OptionError, SessionError, SyncError
from nbdist.launch import files as listing
from nbdist.launch.agents import AgentSpec
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.files import sources
from nbdist.launch.files.sync import FIRST, Copied, Files, HostCopy, reopen_files
from nbdist.session.keeping import sync_files
from tests.waiting import wait_for

OUTSIDE = ["../x", "a/../../x", "/etc/x", "", ".", "..", "a//b", "./a", "a/", "a\0b", None, 3]


class Reported:
    """What a parent would write to the kernel."""

    def __init__(self) -> None:
        self.events: list[tuple[int | None, FileEvent]] = []

    def send(self, event: FileEvent, *, task: int | None = None) -> None:
        self.events.append((task, event))

    @property
    def error(self) -> str:
        """Why the last was refused."""
        _, event = self.events[-1]
        assert isinstance(event, FilesFailed)
        return event.error


def listed(copying: str, name: Any, size: int, mode: int, sha256: str) -> ListFiles:
    """The order that announces one file."""
    file = ListedFile(name=name, size=size, mode=mode, sha256=sha256)
    return ListFiles(id=copying, files=(file,))


class TaskTold:
    """What one task of a job would write."""

    def __init__(self, reported: Reported, task: int) -> None:
        self._reported, self._task = reported, task

    def send(self, event: FileEvent) -> None:
        self._reported.send(event, task=self._task)


class Remote:
    """A parent on another machine, or a job of several, whose orders are obeyed at once in folders here."""

    def __init__(self, name: str, *folders: Path) -> None:
        self.reach = SimpleNamespace(name=name)
        self.reported = Reported()
        self.copying = self.reported.events
        self.ended_at: float | None = None
        self.sent: list[str] = []
        self.all: list[FileCopies] = []
        self.facts = {}
        for number, folder in enumerate(folders):
            folder.mkdir()
            task = number if len(folders) > 1 else None
            self.facts[task] = SimpleNamespace(host=folder.name, cwd="/", folder=str(folder))
            reported = self.reported if task is None else TaskTold(self.reported, task)
            self.all.append(FileCopies(str(folder), reported))  # type: ignore[arg-type]
        self.copies = self.all[0]
        self.roots = [folder / FOLDER for folder in folders]
        self.root = self.roots[0]

    def poll(self) -> int | None:
        return None

    def order(self, order: FileOrder) -> None:
        if isinstance(order, WriteFile):
            self.sent.append(order.name)
        for copies in self.all:
            copies.obey(order)

    def held(self) -> dict[str, str]:
        """The copy's files, with what is in them."""
        paths = [p for p in self.root.rglob("*") if p.is_file()]
        return {str(p.relative_to(self.root)): p.read_text() for p in sorted(paths)}


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote("h1", tmp_path / "h1")


def begin(files: Files, *remotes: Remote) -> Copied:
    """The copying of a start."""
    files.begin({remote.reach.name: remote for remote in remotes})  # type: ignore[misc]
    wait_for(lambda: not any(sending.running for sending in files._sendings))
    return files.first()


def again(files: Files, *remotes: Remote) -> Copied:
    for remote in remotes:
        remote.sent.clear()
    return files.sync({remote.reach.name: remote for remote in remotes})  # type: ignore[misc]


def send(copies: FileCopies, name: str, content: bytes, mode: int = 0o644) -> None:
    """One file to a copy, without a kernel."""
    digest = hashlib.sha256(content).hexdigest()
    copies.obey(listed(name, name, len(content), mode, digest))
    data = base64.b64encode(content).decode()
    copies.obey(WriteFile(id=name, name=name, data=data, sha256=digest))
    copies.obey(CommitFiles(id=name))


# -- what a host refuses -----------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_out_of_the_copy_is_refused_and_nothing_is_written(
    name: object, remote: Remote, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RefusedOrder):
        checked(name)
    remote.copies.obey(listed("a", name, 1, 0o644, "0" * 64))
    remote.copies.obey(WriteFile(id="a", name=name, data="eA==", sha256="0" * 64))
    remote.copies.obey(CommitFiles(id="a"))
    assert [type(event) for _, event in remote.reported.events] == [FilesFailed]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_was_not_announced_is_refused(remote: Remote) -> None:
    remote.copies.obey(ListFiles(id="a", files=()))
    remote.copies.obey(WriteFile(id="a", name="p/x.py", data="eA==", sha256="0"))
    assert "not announced" in remote.reported.error
    assert not remote.root.exists()


def test_nothing_is_written_through_a_link_that_a_cell_has_made(
    remote: Remote, tmp_path: Path
) -> None:
    send(remote.copies, "p/x.py", b"x = 1\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (remote.root / "p" / "link").symlink_to(outside)
    send(remote.copies, "p/link/y.py", b"y = 1\n")
    assert "is a link" in remote.reported.error
    assert list(outside.iterdir()) == []


def test_a_file_that_arrives_otherwise_than_it_was_sent_replaces_nothing(remote: Remote) -> None:
    send(remote.copies, "p/x.py", b"x = 1\n")
    remote.copies.obey(listed("b", "p/x.py", 6, 0o644, "0" * 64))
    remote.copies.obey(WriteFile(id="b", name="p/x.py", data="eA==", sha256="0" * 64))
    assert "p/x.py has not arrived" in remote.reported.error
    assert remote.held() == {"p/x.py": "x = 1\n"}
    assert [path.name for path in remote.root.parent.iterdir()] == [FOLDER]


def test_a_list_whose_files_have_not_all_arrived_is_not_put_in_place(remote: Remote) -> None:
    send(remote.copies, "p/x.py", b"x = 1\n")
    remote.copies.obey(listed("b", "p/y.py", 1, 0o644, "0" * 64))
    remote.copies.obey(CommitFiles(id="b"))
    assert remote.reported.error == "p/y.py has not arrived"
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
    done = again(files, remote)
    assert done.hosts["h1"].removed == 2
    assert done.changed == set()  # there is nothing to load again
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
        assert imported_from([str(copy), str(copy.parent / "other.py")]) == ["model"]
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
    imported_from([])
    importlib.import_module("has_come")
    del sys.modules["has_come"]


def test_the_tasks_of_a_job_each_get_what_any_of_them_lacks(project: Path, tmp_path: Path) -> None:
    job = Remote("job", tmp_path / "h1", tmp_path / "h2")
    files = Files(sources([str(project)]))
    all_new = HostCopy(sent=3, unchanged=0, removed=0)
    assert begin(files, job).hosts == {"h1": all_new, "h2": all_new}
    (job.roots[1] / "project/model.py").unlink()
    done = again(files, job)
    assert job.sent == ["project/model.py"]
    assert set(done.hosts) == {"h1", "h2"}
    assert all((root / "project/model.py").is_file() for root in job.roots)
    (project / "model.py").write_text("width = 2\n")
    (job.roots[1] / "project/model.py").unlink()
    (job.roots[1] / "project/model.py").mkdir()
    with pytest.raises(SyncError, match=r"host job: Is a directory .*\(host h2\)"):
        again(files, job)


def test_a_kernel_that_attaches_sends_what_the_hosts_lack_and_no_more(
    project: Path, remote: Remote
) -> None:
    begin(Files(sources([str(project)])), remote)
    (project / "model.py").write_text("width = 2\n")
    attached = reopen_files([str(project)])
    assert attached is not None
    done = again(attached, remote)
    assert remote.sent == ["project/model.py"]
    assert done.changed == {"project/model.py"}
    assert reopen_files([]) is None
    assert reopen_files([str(project / "gone")]) is None


def test_a_folder_that_is_gone_takes_nothing_along(project: Path, remote: Remote) -> None:
    files = Files(sources([str(project)]))
    begin(files, remote)
    project.rename(project.with_name("renamed"))
    with pytest.raises(OptionError, match="is no longer there; nothing was changed"):
        again(files, remote)
    assert len(remote.held()) == 3


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
    # Who had the new file then, and the old one imported, was not told of it.
    assert again(files, other).changed == {"project/model.py"}
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
    monkeypatch.setattr("nbdist.launch.files.sync.PIECE_BYTES", 4)
    (project / "data.txt").write_text("0123456789")
    begin(Files(sources([str(project)])), remote)
    assert remote.sent.count("project/data.txt") == 3
    assert remote.held()["project/data.txt"] == "0123456789"


# -- what is said --------------------------------------------------------------------------------


def test_hosts_with_the_same_done_share_a_line_and_old_modules_are_named() -> None:
    same = HostCopy(sent=2, unchanged=41, removed=0)
    done = Copied(
        hosts={"h1": same, "h2": same, "h3": HostCopy(sent=43, unchanged=0, removed=1)},
        files=43,
        seconds=0.1,
        left_out=("p/big (60 MB)",),
        old={"model": (0, 1, 2, 3), "pkg.layers": (2,)},
        busy=(4,),
    )
    assert done.text().splitlines() == [
        "h1, h2   2 files sent, 41 unchanged, 0.1 s",
        "h3   43 files sent, 1 removed, 0.1 s",
        "not copied: p/big (60 MB)",
        "already imported: model (processes 0–3), pkg.layers (process 2); importlib.reload(model) in a cell "
        "loads the new version, as does autoreload",
        "process 4 busy: what is already imported there is not known",
    ]


def test_a_session_without_files_says_how_to_name_some() -> None:
    engines = SimpleNamespace(cluster=SimpleNamespace(agents=SimpleNamespace(files=None)))
    with pytest.raises(SessionError, match="%dist_init --sync PATH names them"):
        sync_files(engines)  # type: ignore[arg-type]


def test_this_machine_alone_needs_no_copy(project: Path) -> None:
    files = Files(sources([str(project)]))
    (project / "model.py").write_text("width = 2\n")
    begin(files)
    assert again(files).text().startswith("this machine   3 files")
    assert files.local_folders == [str(project)]


# -- a host that takes no more -------------------------------------------------------------------


class Stuck:
    """A channel in which an order is never taken."""

    pid = 0
    running = True
    left = False
    status = None

    def __init__(self) -> None:
        self.process = self
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
    parent = AgentHandle(
        AgentSpec(name="h1", remote=True),
        channel,  # type: ignore[arg-type]
        log=tmp_path / "log",
        on_event=lambda event: None,
    )
    parent.beat()  # no room for it, and nothing is written
    assert not channel.entered.is_set()
    sender = threading.Thread(target=parent.order, args=(CommitFiles(id="a"),))
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
    assert {event.id for _, event in remote.reported.events} == {FIRST}
    again(files, remote)
    ids = {event.id for _, event in remote.reported.events}
    again(files, remote)
    assert FIRST not in ids
    assert not ids & {event.id for _, event in remote.reported.events}
