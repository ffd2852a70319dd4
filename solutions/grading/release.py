"""`python -m solutions.grading.release`: packs what students get into dist/trt-lab-student.zip.

The notebooks (made from solutions/, as for labs/), helpers/, trtcpu/, the data, and what is needed to set up. No
answers, no checks that decide points. The notebooks are in .handout/: a newer release overwrites no work.
"""

import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from helpers.course.handout import HANDOUT
from helpers.tools.files import atomic_path
from solutions.grading.addresses import BUNDLE as NAME
from solutions.grading.addresses import bundle_address
from solutions.grading.course import Course
from solutions.grading.executed import outdated, warn
from solutions.grading.labs import hand_out
from solutions.grading.layout import ROOT
from trtcpu.errors import InputError, LabError

_MOMENT = (2026, 1, 1, 0, 0, 0)
_ALIKE = ("labs/README.md", "environment.yml", "constraints.txt", "LICENSE")
_AGENTS = "AGENTS.md"
"""What coding assistants read; it holds for labs/ in the repository, and for all of the archive."""
_OWN = Path(__file__).parent / "student"
_FOLDERS = {"helpers": (), "trtcpu": (), "datasets": ("cache", "train_weights.py")}
_LEFT_OUT = {"__pycache__", ".ipynb_checkpoints", "artifacts"}


def make_release(root: Path, target: Path) -> list[str]:
    """Write the archive to `target` in one step and return the names in it; the same files give the same bytes.

    Raises:
        InputError: there are no notebooks, or something leads to the solutions.
    """
    files = dict(sorted(_files(root)))
    for name, data in files.items():
        if name.endswith(".py") and re.search(rb"^\s*(import|from) (solutions|trtlab)\b", data, re.M):
            raise InputError(f"{name} imports solutions or trtlab, which students do not get")
    with atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"{NAME}/{name}", _MOMENT)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return list(files)


def student_project(text: str) -> str:
    """Return pyproject.toml as students need it: helpers and trtcpu, no command line, no tools of this repository."""
    text = text.split("[tool.pytest")[0]
    text = re.sub(r"^\[project\.scripts\]\n.*?(?=^\[)", "", text, flags=re.S | re.M)
    text = re.sub(r'^"?(solutions|trtlab)\.[^\n]*\n', "", text, flags=re.M)
    text = re.sub(r"^dev = .*\n", "", text, flags=re.M)
    text = text.replace(', "solutions*", "trtcpu*", "trtlab*"]', ', "trtcpu*"]')
    if "solutions" in text or "trtlab" in text:
        raise InputError("pyproject.toml names solutions or trtlab in a place that the student's version still has")
    return text.replace('name = "trt-lab"', f'name = "{NAME}"').rstrip() + "\n"


def _files(root: Path) -> Iterator[tuple[str, bytes]]:
    for folder, left_out in _FOLDERS.items():
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root)
            outside = _LEFT_OUT.intersection(name.parts) or name.parts[1] in left_out
            if path.is_file() and not path.is_symlink() and not outside and path.suffix != ".pyc":
                yield str(name), path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        if not hand_out(Course.at(root), Path(folder)):
            raise InputError("solutions/ has no notebooks; run this in the repository's folder")
        for path in sorted(Path(folder).rglob("*.*")):
            yield f"{HANDOUT}/{path.relative_to(folder)}", path.read_bytes()
    for name in _ALIKE:
        yield name, (root / name).read_bytes()
    yield _AGENTS, (root / "labs" / _AGENTS).read_bytes()
    for path in sorted(_OWN.iterdir()):
        if path.is_file():
            yield path.name, path.read_bytes()
    yield "pyproject.toml", student_project((root / "pyproject.toml").read_text()).encode()


def main(
    strict: Annotated[bool, typer.Option(help="Refuse where solutions/ has outputs of other code.")] = False,
) -> None:
    """Pack the course in the current folder; warn where solutions/ has outputs of other code."""
    target = Path("dist") / f"{NAME}.zip"
    try:
        if (old := outdated(Course.at("."))) and strict:
            advice = "execute them again with `make solutions KEEP=1`, or pack without STRICT=1"
            raise InputError(f"solutions/ is not as it was executed ({'; '.join(old)}); {advice}")
        warn(old)
        names = make_release(Path("."), target)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{target}: {len(names)} files, {target.stat().st_size / 1e6:.1f} MB")
    print(f"Notebooks opened in Colab and Kaggle fetch it from {bundle_address(ROOT)}")


if __name__ == "__main__":
    typer.run(main)
