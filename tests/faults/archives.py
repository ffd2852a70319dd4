"""A broken zip among those that a learning platform gave costs its owner's submission and nobody else's."""

import shutil
import zipfile

from tests.faults.course import Copies, Run, require
from tests.grading.tiny import STEP


def broken_zip(copies: Copies) -> str:
    """Everybody's notebook comes as a zip, one of a fifth student is broken: everybody else's grades are as ever."""
    root = copies.copy(graded=False)
    archive = root / "downloaded" / STEP / "archive"
    archive.mkdir(parents=True)
    for notebook in sorted((root / "submitted").glob(f"*/{STEP}/{STEP}.ipynb")):
        with zipfile.ZipFile(archive / f"{notebook.parts[-3]}.zip", "w") as file:
            file.write(notebook, f"{STEP}.ipynb")
    shutil.rmtree(root / "submitted")
    whole = (archive / "ada.zip").read_bytes()
    (archive / "zoe.zip").write_bytes(whole[: len(whole) // 2])
    run = Run(root)
    run.graded()
    line = next((line for line in run.out.splitlines() if "zoe.zip" in line), "")
    require("refused: zoe.zip: it cannot be unpacked" in line, f"no line about the broken zip: {run.out[:400]}")
    copies.require_same(root)
    return line
