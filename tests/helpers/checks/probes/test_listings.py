"""Do folders list their entries in another order inside the block, however they are read, and only there?"""

import os
from pathlib import Path

from helpers.checks.probes.listings import reversed_listings


def test_folders_are_listed_backwards_in_the_block_only(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        (tmp_path / name).touch()
    before = os.listdir(tmp_path)
    with reversed_listings():
        assert os.listdir(tmp_path) == ["c", "b", "a"]
        assert [name for _, _, files in os.walk(tmp_path) for name in files] == ["c", "b", "a"]
        assert [path.name for path in tmp_path.iterdir()] == ["c", "b", "a"]
    assert os.listdir(tmp_path) == before
