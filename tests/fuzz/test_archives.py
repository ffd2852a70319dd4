"""Archives that were handed in: notebooks in the folder for them, and a line for whatever was not taken."""

import io
import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solutions.grading.archives import Download
from tests.fuzz import cases, spoilt

_PARTS = st.sampled_from(
    [
        "01_export.ipynb",
        "a",
        "..",
        ".",
        "",
        "/",
        "C:",
        "\\",
        "evil.py",
        "x" * 300 + ".ipynb",
        "ü.ipynb",
        "n\n.ipynb",
        ".ipynb",
    ]
)
NAMES = st.lists(_PARTS, min_size=1, max_size=4).map("/".join) | st.text(max_size=8).map(lambda text: f"{text}.ipynb")
MODES = st.sampled_from([0, 0o100644, 0o120777, 0o10644, 0o40755])  # nothing, a file, a link, a pipe, a folder
MEMBERS = st.lists(st.tuples(NAMES, MODES, st.binary(max_size=20)), max_size=4)


def zipped(members: list[tuple[str, int, bytes]]) -> bytes:
    """Return a zip of files by name, Unix mode and content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, mode, data in members:
            about = zipfile.ZipInfo("x")
            about.filename, about.external_attr = name, mode << 16
            archive.writestr(about, data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


@st.composite
def packed(draw: st.DrawFn) -> tuple[str, bytes]:
    """Return the name and the bytes of an archive, whole or spoilt, maybe within another."""
    suffix, data = draw(st.sampled_from([".zip", ".ZIP", ".rar"])), zipped(draw(MEMBERS))
    if draw(st.booleans()):
        data = zipped([(f"eve{suffix}", 0, data), *draw(MEMBERS)])
        suffix = ".zip"
    return f"eve{suffix}", draw(st.just(data) | spoilt(data))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(archive=packed())
@cases(60)
def test_an_archive_gives_notebooks_in_its_folder_and_lines(place: Path, archive: tuple[str, bytes]) -> None:
    source, target = place / "archive", place / "room" / "notebooks"
    for folder in (source, place / "room"):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir()
    target.mkdir(parents=True)
    (source / archive[0]).write_bytes(archive[1])
    download = Download(source, target)
    written = [path for path in place.rglob("*") if source not in path.parents and not path.is_dir()]
    assert sorted(written) == sorted(download.notebooks.values()) and all(path.parent == target for path in written)
    assert all(line.isprintable() and line.startswith("refused: eve") for line in download.lines)
