"""The cluttered digits as image folders, rendered when they are first asked for."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from filelock import FileLock

from helpers.data import digits
from helpers.data.downloads import cannot_write
from helpers.data.image_folders import DataSet, Item
from helpers.data.storage import progress_bar
from helpers.tools.files import atomic_path
from trtcpu.errors import DataError, LabError


@dataclass(frozen=True)
class RenderedDigits(DataSet):
    """Cluttered digits below `folder`/SPLIT/CLASS/, one PNG an image; only what is asked for is rendered.

    A file appears under its name only when it is complete, and the folder is named after the renderer's version, so
    that neither an interrupted run nor an older renderer leaves images that are taken for good.
    """

    folder: Path
    progress: bool

    def place(self, split: str) -> Path:
        return self.folder / split

    def split(self, split: str) -> Path:
        self.images(split)
        return self.place(split)

    def _images(self, split: str, limit: int | None, seed: int) -> list[Item]:
        pairs = list(digits.variants(split))
        if seed:
            pairs = [pairs[i] for i in np.random.RandomState(seed).permutation(len(pairs))]
        pairs = list(islice(pairs, limit))
        labels = [int(digits.load_digits()[1][digit]) for digit, _ in pairs]
        items = [(self._path(split, label, *pair), label) for pair, label in zip(pairs, labels, strict=True)]
        self._render_missing(split, items, pairs)
        return items

    def _path(self, split: str, label: int, digit: int, variant: int) -> Path:
        return self.place(split) / digits.CLASSES[label] / f"{digit:04d}-{variant}.png"

    def missing(self, split: str) -> int:
        """Return how many images of a split are not rendered yet."""
        return len(list(digits.variants(split))) - len(self._present(split))

    def _present(self, split: str) -> set[Path]:
        return set(self.folder.glob(f"{split}/*/*.png"))

    def _render_missing(self, split: str, items: Sequence[Item], pairs: Sequence[tuple[int, int]]) -> None:
        jobs = [(path, pair) for (path, _), pair in zip(items, pairs, strict=True)]
        if {path for path, _ in jobs} <= self._present(split):
            return
        try:
            for name in digits.CLASSES:
                (self.place(split) / name).mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / ".lock"):  # who waits for it finds the images there
                for left in self.folder.glob(".*.png"):  # of a run that was killed
                    left.unlink()
                present = self._present(split)
                self._render_all(split, [job for job in jobs if job[0] not in present])
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        except LabError as error:
            raise DataError(f"{error} (TRT_LAB_DATA names the folder)") from error

    def _render_all(self, split: str, missing: Sequence[tuple[Path, tuple[int, int]]]) -> None:
        """Render on all cores; NumPy and the PNG encoder release Python's lock, so threads are enough."""
        pool = ThreadPoolExecutor(max_workers=os.cpu_count())
        try:
            done = pool.map(_render_file, missing)
            for _ in progress_bar(done, f"render {split}", " images", self.progress, total=len(missing)):
                pass
        finally:
            pool.shutdown(cancel_futures=True)


def _render_file(job: tuple[Path, tuple[int, int]]) -> None:
    from PIL import Image

    path, (digit, variant) = job
    with atomic_path(path, within=path.parents[2]) as temporary:  # another process may be listing the split
        Image.fromarray(digits.render_variant(digit, variant)).save(temporary, format="PNG", compress_level=1)
