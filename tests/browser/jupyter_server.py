"""A JupyterLab of its own: free port, token, and nothing of the user's settings, kernels or history."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_START_SECONDS = 60
_FONT = "'Liberation Sans', Arial, sans-serif"
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    # Every cell is in the page, so that a cell's number in the file is its number there.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "docmanager-extension/plugin": {"autosave": False},
    "apputils-extension/themes": {
        "adaptive-theme": True,
        "overrides": {"ui-font-family": _FONT, "content-font-family": _FONT},
    },
}


class JupyterServer:
    """`jupyter lab` of this Python with `root` as its folder, for the length of a `with` block.

    It is light or dark as the browser asks for.

    Args:
        root: the folder served; also the working folder, where nbgrader looks for nbgrader_config.py.
        home: an empty folder for settings, logs and everything that Jupyter would keep in the user's home.
        environment: variables for the kernels.
        page_config: the content of labconfig/page_config.json, which switches parts of JupyterLab off.
    """

    def __init__(self, root: Path, home: Path, environment: Mapping[str, str], page_config: str = "{}") -> None:
        self.root, self.home, self.page_config = root, home, page_config
        self.token = secrets.token_hex(16)
        self.log = home / "jupyter.log"
        self._environment = {**os.environ, **_private(home), **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "JupyterServer":
        for plugin, values in _SETTINGS.items():
            file = self.home / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        labconfig = self.home / "config" / "labconfig"
        labconfig.mkdir(exist_ok=True)
        (labconfig / "page_config.json").write_text(self.page_config)
        self.port = _free_port()
        options = {
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.root,
            "IdentityProvider.token": self.token,
            "LabApp.news_url": None,
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
        command += [f"--{name}={value}" for name, value in options.items()]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.root, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def url(self, path: str) -> str:
        """Return the address of `path`, the token included."""
        return f"http://127.0.0.1:{self.port}/{path.lstrip('/')}?token={self.token}"

    def log_tail(self, characters: int = 3000) -> str:
        """Return the end of the server's log, for messages of failed tests."""
        return self.log.read_text(errors="replace")[-characters:]

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"jupyter lab ended with code {self._process.returncode}:\n{self.log_tail()}")
            try:
                with urllib.request.urlopen(self.url("api/status"), timeout=5):
                    return
            except (urllib.error.URLError, TimeoutError):
                time.sleep(0.2)
        raise RuntimeError(f"jupyter lab gave no answer at port {self.port} in {_START_SECONDS} s:\n{self.log_tail()}")

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _private(home: Path) -> dict[str, str]:
    """Return the variables that keep Jupyter and its kernels out of the user's home."""
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    for folder in folders.values():
        (home / folder).mkdir(parents=True, exist_ok=True)
    return {variable: str(home / folder) for variable, folder in folders.items()}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
