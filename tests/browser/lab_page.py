"""JupyterLab as a person uses it: open a notebook, write into a cell, run cells, press buttons, read what appears.

Every wait is for something on the page and says, where it does not come, what was looked for.
"""

import json
import re
from pathlib import Path
from typing import Literal

from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser.jupyter_server import JupyterServer

_LOAD_MS = 60_000
_CELL_MS = 90_000
_VALIDATE_MS = 120_000


class LabPage:
    """One browser tab with JupyterLab in it."""

    def __init__(self, page: Page, server: JupyterServer) -> None:
        self.page, self.server = page, server

    def open_notebook(self, path: Path) -> "OpenNotebook":
        """Open the notebook at `path` (in the server's folder) and wait until its kernel is idle."""
        self._goto(f"lab/tree/{path.relative_to(self.server.root).as_posix()}")
        self._close_sidebar()
        panel = self.page.locator(".jp-NotebookPanel:visible")
        expect(panel, f"a notebook panel with {path.name} in it").to_have_count(1, timeout=_LOAD_MS)
        kernel = "no question about the kernel: the notebook's metadata name one that is installed"
        expect(self.page.locator(".jp-Dialog"), kernel).to_have_count(0)
        # The notebook's own indicator says idle before there is a kernel, and what runs then is lost.
        status = self.page.locator("#jp-main-statusbar")
        expect(status, "the kernel in the status bar, idle").to_contain_text(") | Idle", timeout=_LOAD_MS)
        return OpenNotebook(self.page, panel, path)

    def show_theme(self, scheme: Literal["light", "dark"]) -> None:
        """Make the browser ask for light or dark pages, and wait until JupyterLab has followed."""
        self.page.emulate_media(color_scheme=scheme)
        body, light = self.page.locator("body"), str(scheme == "light").lower()
        expect(body, f"JupyterLab's {scheme} theme").to_have_attribute("data-jp-theme-light", light, timeout=_LOAD_MS)
        expect(self.page.locator("#jupyterlab-splash"), "the loading screen to go").to_have_count(0, timeout=_LOAD_MS)

    def open_formgrader(self) -> FrameLocator:
        """Open nbgrader's formgrader from the menu and return its page."""
        self._goto("lab")
        self._close_sidebar()
        self.page.get_by_role("menuitem", name="Nbgrader", exact=True).click()
        self.page.get_by_role("menuitem", name="Formgrader", exact=True).click()
        frame = self.page.locator("iframe:visible")
        expect(frame, "a tab with the formgrader's page").to_have_count(1, timeout=_LOAD_MS)
        return self.page.frame_locator("iframe:visible")

    def _goto(self, path: str) -> None:
        # reset: no tabs that another test left open in the workspace.
        self.page.goto(f"{self.server.url(path)}&reset", timeout=_LOAD_MS)
        expect(self.page.locator("#jp-main-dock-panel"), "JupyterLab's main area").to_be_visible(timeout=_LOAD_MS)
        expect(self.page.locator("#jupyterlab-splash"), "the loading screen to go").to_have_count(0, timeout=_LOAD_MS)

    def _close_sidebar(self) -> None:
        open_tab = self.page.locator("#jp-main-content-panel .jp-SideBar.jp-mod-left .lm-TabBar-tab.lm-mod-current")
        if open_tab.count():
            open_tab.click()
        expect(self.page.locator("#jp-left-stack"), "the left side bar to close").to_be_hidden()


class OpenNotebook:
    """A notebook on the screen. Cells are numbered as in its file."""

    def __init__(self, page: Page, panel: Locator, path: Path) -> None:
        self.page, self.panel, self.path = page, panel, path
        self._cells = panel.locator(".jp-WindowedPanel-viewport > .jp-Cell")
        expect(self._cells, "one cell on the page for each cell of the file").to_have_count(len(self._on_disk()))

    def number(self, grade_id: str) -> int:
        """Return the number of the cell that nbgrader calls `grade_id`."""
        ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in self._on_disk()]
        assert grade_id in ids, f"{self.path.name} has no cell {grade_id}; it has {[name for name in ids if name]}"
        return ids.index(grade_id)

    def source(self, number: int) -> str:
        """Return the cell's text as last saved."""
        return "".join(self._on_disk()[number]["source"])

    def cell(self, number: int) -> Locator:
        """Return the cell on the page."""
        return self._cells.nth(number)

    def write(self, number: int, text: str) -> None:
        """Replace the cell's whole text, as someone does who selects it all and pastes; then save."""
        editor = self.cell(number).locator(".cm-content")
        editor.click()
        expect(editor, f"the editor of cell {number} to take the keyboard").to_be_focused()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)
        self.page.keyboard.press("Escape")
        self.save()
        saved = self.source(number)
        assert saved == text, f"cell {number} was to hold\n{text}\nbut the saved file has\n{saved}"

    def save(self) -> None:
        """Save with the keyboard's shortcut and wait for the server's answer."""
        with self.page.expect_response(lambda answer: answer.request.method == "PUT" and self.path.name in answer.url):
            self.page.keyboard.press("Control+S")

    def run(self, number: int) -> Locator:
        """Run one cell with Shift+Enter, wait until it has ended, and return its output area."""
        cell = self.cell(number)
        cell.locator(".cm-content").click()
        cell.press("Shift+Enter")
        prompt = cell.locator(".jp-InputArea-prompt")
        expect(prompt, f"cell {number} to end").to_have_text(re.compile(r"^\[\d+\]:$"), timeout=_CELL_MS)
        return cell.locator(".jp-OutputArea")

    def run_up_to(self, number: int) -> Locator:
        """Run all cells above `number` from the menu, folded ones too, then that one; return its output area."""
        self.cell(number).locator(".cm-content").click()
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Above Selected Cell", exact=True).click()
        return self.run(number)

    def validate(self) -> str:
        """Press nbgrader's Validate button; return what the dialog says, and leave it open."""
        self.panel.get_by_role("button", name="Validate").click()
        dialog = self.page.locator(".jp-Dialog")
        expect(dialog, "the dialog with the validation's results").to_contain_text(
            "Validation Results", timeout=_VALIDATE_MS
        )
        return dialog.inner_text()

    def close_dialog(self) -> None:
        """Press the open dialog's button."""
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        expect(self.page.locator(".jp-Dialog"), "the dialog to close").to_have_count(0)

    def _on_disk(self) -> list[dict]:
        return json.loads(self.path.read_text())["cells"]
