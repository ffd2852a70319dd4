"""`python -m solutions.grading.release`: packs what students get into dist/trt-lab-student.zip.

The notebooks (made from solutions/, as for labs/), helpers/, trtcpu/, the data, and what is needed to set up. No
answers, no checks that decide points. The notebooks are in .handout/: a newer release overwrites no work.
"""

import re
import sys
import tempfile
import zipfile
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
_FOLDERS = ("helpers", "trtcpu", "datasets")
_LEFT_OUT = {"__pycache__", ".ipynb_checkpoints", "artifacts", "cache", "train_weights.py"}
_ALIKE = ("labs/README.md", "environment.yml", "constraints.txt", "LICENSE")

# What becomes of pyproject.toml: helpers and trtcpu, no command line, no tools of this repository.
_PROJECT = {
    r"\n\[tool\.pytest.*": "",
    r"^\[project\.scripts\]\n.*?(?=^\[)": "",
    r'^("?(solutions|trtlab)\.|dev = )[^\n]*\n': "",
    r', "solutions\*", "trtcpu\*", "trtlab\*"\]': ', "trtcpu*"]',
    r'name = "trt-lab"': f'name = "{NAME}"',
}


def make_release(root: Path, target: Path) -> list[str]:
    """Write the archive to `target` in one step and return the names in it; the same files give the same bytes.

    Raises:
        InputError: there are no notebooks, or something leads to the solutions.
    """
    files = _files(root)
    for name, data in files.items():
        if name.endswith(".py") and re.search(rb"^\s*(import|from) (solutions|trtlab)\b", data, re.M):
            raise InputError(f"{name} imports solutions or trtlab, which students do not get")
    with atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{NAME}/{name}", _MOMENT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return sorted(files)


def student_project(text: str) -> str:
    """Return pyproject.toml as students need it.

    Raises:
        InputError: it would still name solutions or trtlab.
    """
    for pattern, instead in _PROJECT.items():
        text = re.sub(pattern, instead, text, flags=re.S | re.M)
    if "solutions" in text or "trtlab" in text:
        raise InputError("pyproject.toml names solutions or trtlab in a place that the student's version still has")
    return text.rstrip() + "\n"


def _files(root: Path) -> dict[str, bytes]:
    """Return all that is in the archive, by its name there."""
    course, own = Course.at(root), Path(__file__).parent / "student"
    if not course.present:
        raise InputError("solutions/ has no notebooks; run this in the repository's folder")
    found = {name: root / name for name in _ALIKE}
    found["AGENTS.md"] = root / "labs" / "AGENTS.md"  # it holds for labs/ in the repository, and for all of the archive
    found |= {path.name: path for path in own.iterdir() if path.is_file()}
    ours = [path for folder in _FOLDERS for path in (root / folder).rglob("*") if not path.is_symlink()]
    names = [path.relative_to(root) for path in ours if path.is_file()]
    found |= {str(name): root / name for name in names if _LEFT_OUT.isdisjoint(name.parts)}
    with tempfile.TemporaryDirectory() as folder:
        hand_out(course, Path(folder))
        found |= {f"{HANDOUT}/{path.relative_to(folder)}": path for path in Path(folder).rglob("*.*")}
        files = {name: path.read_bytes() for name, path in found.items()}
    return files | {"pyproject.toml": student_project((root / "pyproject.toml").read_text()).encode()}


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
