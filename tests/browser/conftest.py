"""One course, a JupyterLab of its instructor and of its students, and one Chromium for all tests; a tab for each."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.course import ROOT, Course, lab_environment, student_page_config
from tests.browser.jupyter_server import JupyterServer
from tests.browser.lab_page import LabPage

WINDOW = {"width": 1280, "height": 800}
expect.set_options(timeout=20_000)  # the machine may be busy; what is there at once costs no wait
PICTURES = ROOT / "results" / "browser"


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's artifacts after step 1, of the small network."""
    folder = tmp_path_factory.mktemp("artifacts")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lab_environment().items():
            patch.setenv(name, value)
        from solutions.checks.trusted.reference import reference

        shutil.copy(reference().path("resnet50_simplified.onnx"), folder)
    return folder


@pytest.fixture(scope="session")
def course(artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Course:
    return Course.create(tmp_path_factory.mktemp("course"), artifacts)


@pytest.fixture(scope="session")
def server(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """An instructor's JupyterLab."""
    with JupyterServer(course.root, tmp_path_factory.mktemp("jupyter"), lab_environment()) as running:
        yield running


@pytest.fixture(scope="session")
def student_server(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """A JupyterLab as the student bundle sets it up."""
    home = tmp_path_factory.mktemp("student")
    with JupyterServer(course.root, home, lab_environment(), page_config=student_page_config()) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.fail("Chromium is not installed: run `apt-get install chromium`, or set CHROMIUM to its path")
    # Chromium's own sandbox refuses to run as root; the only pages opened here are those of the server above.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A tab in a browser profile of its own; a picture of it is kept where the test fails."""
    context = browser.new_context(viewport=WINDOW, device_scale_factor=2)
    opened = context.new_page()
    yield opened
    if getattr(request.node, "failed", False):
        take_picture(opened, f"failed-{request.node.name}")
    context.close()


@pytest.fixture
def complaints(page: Page) -> Iterator[list[str]]:
    """What the browser complains about, and every address that is not a file's."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("requestfailed", lambda request: found.append(f"{request.url}: {request.failure}"))
    page.on("request", lambda request: found.append(request.url) if not _is_local(request.url) else None)
    yield found


@pytest.fixture
def lab(page: Page, server: JupyterServer) -> LabPage:
    return LabPage(page, server)


@pytest.fixture
def student_lab(page: Page, student_server: JupyterServer) -> LabPage:
    return LabPage(page, student_server)


@pytest.fixture
def picture(page: Page):
    """A function that keeps the tab as results/browser/NAME.png."""
    return lambda name: take_picture(page, name)


def _is_local(address: str) -> bool:
    return address.startswith(("file:", "data:", "blob:"))


def take_picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    item.failed = getattr(item, "failed", False) or report.failed
    return report
