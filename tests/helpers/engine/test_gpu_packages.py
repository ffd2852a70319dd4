"""The commands that bring real TensorRT to a machine, and that they install what the extras name."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.engine import gpu_packages

PROJECT = (Path(__file__).resolve().parents[3] / "pyproject.toml").read_text()


def _driver_for(monkeypatch: pytest.MonkeyPatch, cuda: int) -> None:
    nvml = SimpleNamespace(nvmlInit=lambda: None, nvmlSystemGetCudaDriverVersion=lambda: cuda)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


def _installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    found = [SimpleNamespace(metadata={"Name": name}) for name in names]
    monkeypatch.setattr(gpu_packages.metadata, "distributions", lambda: found)


@pytest.mark.parametrize("extra, major", [("gpu", 13), ("gpu12", 12)])
def test_an_extra_names_the_packages_of_the_command(extra: str, major: int) -> None:
    named = re.search(rf"^{extra} = \[(.*)\]$", PROJECT, re.M)[1]
    assert re.findall(r'"([^"]+)"', named) == [gpu_packages.CUDA_PYTHON[major], gpu_packages.TENSORRT[major]]


@pytest.mark.parametrize("cuda, major", [(12040, 12), (12090, 12), (13000, 13), (13020, 13)])
def test_the_command_is_for_the_cuda_of_the_driver(monkeypatch: pytest.MonkeyPatch, cuda: int, major: int) -> None:
    _driver_for(monkeypatch, cuda)
    assert f"'tensorrt-cu{major}==10.16.1.11'" in gpu_packages.install_command()


def test_without_a_driver_it_is_for_cuda_13(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_packages.cuda_major() == 13


def test_a_python_without_wheels_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_packages.sys, "version_info", (3, 14, 0))
    assert gpu_packages.install_command().endswith("no wheels beyond 3.13)")


def test_replacing_removes_every_package_of_the_tensorrt_that_is_here_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _driver_for(monkeypatch, 13020)
    ours = ("tensorrt", "tensorrt_cu13", "tensorrt_cu13_bindings", "tensorrt_cu13_libs")
    _installed(monkeypatch, *ours, "tensorrt-rtx", "tensorrt_llm", "torch-tensorrt", "torch")
    assert gpu_packages.replace_command() == (
        "pip uninstall -y tensorrt tensorrt-cu13 tensorrt-cu13-bindings tensorrt-cu13-libs"
        " && pip install 'cuda-bindings>=13.0,<14' 'tensorrt-cu13==10.16.1.11'"
    )


def test_where_pip_knows_no_tensorrt_nothing_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    _driver_for(monkeypatch, 12080)
    _installed(monkeypatch, "torch")
    assert gpu_packages.replace_command() == gpu_packages.install_command()
