"""A browser, pages that hold one view, and a JupyterLab of the tests' own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from labpage import PATIENT_MS, Lab, LabPage
from own_network import OwnNetwork
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    expect,
    sync_playwright,
)
from viewpage import ORIGIN, WIDGET, answer, chromium, set_theme

from nbdist.machine.ports import ReservedPorts

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

collect_ignore = ["test_rehearse_in_lab.py"]
"""It is run by its name, by `make test-rehearse`: libtpu, which it needs, is not where the others run."""

OpenView = Callable[..., Page]

expect.set_options(timeout=PATIENT_MS)
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage"]
LAB_SECONDS = 200.0
"""What JupyterLab takes in all, its imports above all, on a machine that has much else to do."""

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes whether a test failed, for what is taken down after it."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def network() -> Iterator[OwnNetwork]:
    found = OwnNetwork()
    yield found
    found.close()


@pytest.fixture(scope="module")
def driver(network: OwnNetwork) -> Iterator[Playwright]:
    """One for each file: while it is there, an event loop runs in this thread, and other tests have theirs."""
    with network.entered():
        # It starts the browser, and is a process of its own as well.
        started = sync_playwright().start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def browser(driver: Playwright) -> Iterator[Browser]:
    """For pages that hold one view."""
    launched = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
    yield launched
    launched.close()


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a browser keeps between pages and between files, JupyterLab as it was compiled above all."""
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def lab_browser(driver: Playwright, profile: Path) -> Iterator[BrowserContext]:
    """For pages of JupyterLab."""
    launched = driver.chromium.launch_persistent_context(
        profile, executable_path=chromium(), args=FLAGS, viewport={"width": 1500, "height": 950}
    )
    yield launched
    launched.close()


@pytest.fixture(scope="module")
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Makes pages that a view can be loaded into; each costs a process of the browser."""
    contexts = []

    def new(**options: Any) -> Page:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENT_MS)
        page.on("pageerror", lambda error: pytest.fail(f"the page raised {error}"))
        page.route(f"{ORIGIN}**", answer)
        # What is kept in storage is gone before anything that is loaded next could read it.
        page.add_init_script("localStorage.clear(); sessionStorage.clear();")
        return page

    yield new
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page_of_module(new_page: Callable[..., Page]) -> Page:
    """One for all tests of a file: what is loaded into it knows nothing of what was there before."""
    return new_page()


@pytest.fixture
def open_view(page_of_module: Page, new_page: Callable[..., Page]) -> OpenView:
    """Loads a page that holds one view and shows a snapshot in it; with `options`, in a page of its own."""
    if not WIDGET.exists():
        pytest.fail(f"{WIDGET} is missing: run `jlpm build:widget` in labextension/.")

    def open_(
        snapshot: dict[str, Any] | None,
        *,
        width: int = 960,
        dark: bool = False,
        query: str = "",
        **options: Any,
    ) -> Page:
        page = new_page(**options) if options else page_of_module
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{ORIGIN}page.html{query}")
        set_theme(page, dark=dark)
        if snapshot is not None:
            page.evaluate("snapshot => page.show(snapshot)", snapshot)
            page.wait_for_selector(".nbdist-session-bar b:not(:empty)", state="attached")
        return page

    return open_


@pytest.fixture(scope="session")
def golden() -> Callable[[str], dict[str, Any]]:
    """Reads one golden snapshot with what is expected of it."""

    def read(name: str) -> dict[str, Any]:
        path = HERE.parent / "golden" / f"{name}.json"
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content

    return read


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: `NBDIST_SHOTS`, else a temporary folder."""
    named = os.environ.get("NBDIST_SHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until the server answers; fails with its log when it ends or takes longer than any machine does."""
    deadline = time.monotonic() + LAB_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab does not answer at {url}:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def start_lab(
    tmp_path_factory: pytest.TempPathFactory, network: OwnNetwork
) -> Iterator[Callable[..., Lab]]:
    """Starts a JupyterLab with its own home, settings and workspaces; stopped at the end."""
    servers: list[subprocess.Popen[bytes]] = []
    reserved = ReservedPorts()

    def start(disabled: tuple[str, ...] = ()) -> Lab:
        root = tmp_path_factory.mktemp("lab")
        config = root / ".config"
        (config / "labconfig").mkdir(parents=True)
        # No page asks whether JupyterLab should be built anew, for which the server would start node each time.
        page = {"disabledExtensions": dict.fromkeys(disabled, True), "buildCheck": False}
        (config / "labconfig" / "page_config.json").write_text(json.dumps(page))
        quiet = {"fetchNews": "false", "checkForUpdates": False}
        overrides = {"@jupyterlab/apputils-extension:notification": quiet}
        (config / "labconfig" / "default_setting_overrides.json").write_text(json.dumps(overrides))
        env = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        env |= {
            "HOME": str(root),
            "JUPYTER_CONFIG_DIR": str(config),
            "JUPYTER_DATA_DIR": str(root / ".data"),
            "JUPYTERLAB_SETTINGS_DIR": str(root / ".settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(root / ".workspaces"),
        }
        # The extension as it was built last, whatever is installed.
        extensions = root / ".labextensions"
        extensions.mkdir()
        (extensions / "nbdist-labextension").symlink_to(ROOT / "nbdist" / "labextension")
        with network.entered():
            (port,) = reserved.reserve(1)
        options = [
            "--no-browser",
            "--allow-root",
            "--ip=127.0.0.1",
            f"--port={port}",
            "--ServerApp.port_retries=0",
            "--IdentityProvider.token=nbdist",
            f"--ServerApp.root_dir={root}",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.news_url=None",
            f"--LabApp.extra_labextensions_path={extensions}",
        ]
        log = root / ".log"
        with log.open("wb") as out, network.entered():
            command = [sys.executable, "-m", "jupyterlab", *options]
            servers.append(subprocess.Popen(command, env=env, stdout=out, stderr=out, cwd=root))
        url = f"http://127.0.0.1:{port}"
        with network.entered():
            _await(f"{url}/api?token=nbdist", servers[-1], log)
        return Lab(url, root)

    yield start
    for server in servers:
        server.terminate()
    for server in servers:
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            # It waits for kernels one after the other; they end by themselves when it is gone.
            server.kill()
            server.wait()
    reserved.close()


@pytest.fixture(scope="session")
def lab(start_lab: Callable[..., Lab]) -> Lab:
    return start_lab()


@pytest.fixture
def lab_page(
    request: pytest.FixtureRequest, lab_browser: BrowserContext, lab: Lab
) -> Iterator[Callable[[], LabPage]]:
    """Opens pages of JupyterLab; those of a test that failed are described in its report."""
    pages: list[LabPage] = []

    def open_() -> LabPage:
        pages.append(LabPage(lab_browser.new_page(), lab))
        return pages[-1]

    yield open_
    for one in pages:
        if request.node.stash.get(_FAILED, False):
            print(one.account())
            print((lab.root / ".log").read_text()[-2000:])
        one.page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
        one.page.close()
