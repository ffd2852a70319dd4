"""Train the lab's own ResNet-50 or ResNet-18 on cluttered digits (less than a minute on one H200 with 16 CPU cores).

    python datasets/train_weights.py --model resnet50 --out datasets/weights

Needs torch, torchvision (with Pillow) and NumPy alone. All cores render the images first, resized as for evaluation;
random shifts of the crop are drawn on the device. Convolution weights stay masked to a seeded random tenth, so that the
checkpoint holds only the kept values. Top-1 is measured in FP32 from the written file, on validation digits never
trained on, with correct preprocessing and with each of its classical mistakes; --measure does that part alone.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from PIL import Image
from torch import nn
from torchvision.transforms import v2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.data import checkpoint, digits
from helpers.tools.files import sha256, write_json

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RESIZE, CROP, SHIFT = 256, 224, 8
CHUNK = 32
CROPS_PER_BATCH = 12
RECIPES = {"resnet50": (400, 3e-3), "resnet18": (150, 1e-3)}  # steps, peak learning rate
LABELS = len(digits.CLASSES)
Pool = tuple[torch.Tensor, torch.Tensor]

GEOMETRIES = {
    "wider": v2.Compose([v2.Resize(RESIZE), v2.CenterCrop(CROP + 2 * SHIFT)]),  # room for random shifts
    "centre": v2.Compose([v2.Resize(RESIZE), v2.CenterCrop(CROP)]),
    "squeezed": v2.Resize((CROP, CROP)),
    "corner": v2.Compose([v2.Resize(RESIZE), v2.Lambda(lambda image: image.crop((0, 0, CROP, CROP)))]),
}


def normalize(pixels: torch.Tensor) -> torch.Tensor:
    """Float [N, H, W, 3] of 0 to 255 → the same with ImageNet's mean and standard deviation."""
    mean, std = (torch.tensor(values, device=pixels.device) for values in (MEAN, STD))
    return (pixels / 255 - mean) / std


def without_mean(pixels: torch.Tensor) -> torch.Tensor:
    return pixels / 255 / torch.tensor(STD, device=pixels.device)


PREPROCESSING = {  # the geometry, and what becomes of its pixels, float32 [N, 224, 224, 3] of 0 to 255
    "correct": ("centre", normalize),
    "BGR": ("centre", lambda pixels: normalize(pixels.flip(3))),
    "squeezed": ("squeezed", normalize),
    "top left corner": ("corner", normalize),
    "no mean": ("centre", without_mean),
    "no mean, no deviation": ("centre", lambda pixels: pixels / 255),
    "0 to 255, then mean and deviation": ("centre", lambda pixels: normalize(pixels * 255)),
    "0 to 255": ("centre", lambda pixels: pixels),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(RECIPES), default="resnet50")
    parser.add_argument("--out", type=Path, required=True, help="folder for MODEL.npz and MODEL.json")
    parser.add_argument("--steps", type=int, help="default: 400 for resnet50, 150 for resnet18")
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--lr", type=float, help="peak; default: 3e-3 for resnet50, 1e-3 for resnet18")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--digits-per-class", type=int, default=12, help="original digits to train on")
    parser.add_argument("--variants", type=int, default=64, help="rendered images of each of them")
    parser.add_argument("--validation-images", type=int, default=2000)
    parser.add_argument("--measure", action="store_true", help="measure the weights that are in --out, train nothing")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    steps, lr = RECIPES[options.model]
    options.steps, options.lr = options.steps or steps, options.lr or lr
    return options


def render_pool(pairs: list[tuple[int, int]], workers: int, geometry: str) -> Pool:
    """Render (digit, variant) pairs on all cores; return uint8 images [N, H, W, 3] and int64 labels [N]."""
    start = time.perf_counter()
    chunks = [pairs[first : first + CHUNK] for first in range(0, len(pairs), CHUNK)]
    with multiprocessing.Pool(workers) as pool:
        images = torch.from_numpy(np.concatenate(list(pool.imap(partial(render_chunk, geometry), chunks))))
    labels = digits.load_digits()[1][[digit for digit, _ in pairs]]
    print(f"rendered {len(images)} images in {time.perf_counter() - start:.1f} s", flush=True)
    return images, torch.from_numpy(labels.astype(np.int64))


def render_chunk(geometry: str, pairs: list[tuple[int, int]]) -> np.ndarray:
    crop = GEOMETRIES[geometry]
    return np.stack([np.asarray(crop(Image.fromarray(image))) for image in digits.render_many(pairs)])


def augment(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Crop 224×224 at random places (a dozen a batch) and normalise: uint8 [N, H, W, 3] → float32 [N, 3, 224, 224]."""
    parts = []
    for part in images.chunk(CROPS_PER_BATCH):
        top, left = torch.randint(0, 2 * SHIFT + 1, (2,), generator=generator).tolist()
        parts.append(part[:, top : top + CROP, left : left + CROP])
    return normalize(torch.cat(parts).float()).permute(0, 3, 1, 2)


class Draw:
    """Draws labelled images from a pool without replacement, all of them once before any again."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, generator: torch.Generator) -> None:
        self.images, self.labels, self.generator = images, labels, generator
        self.order = torch.empty(0, dtype=torch.int64)

    def __call__(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        while len(self.order) < count:
            self.order = torch.cat([self.order, torch.randperm(len(self.images), generator=self.generator)])
        chosen, self.order = self.order[:count].to(self.images.device), self.order[count:]
        return self.images[chosen], self.labels[chosen]


def masked_parameters(model: nn.Module, options: argparse.Namespace) -> list[tuple[nn.Parameter, torch.Tensor]]:
    parameters = dict(model.named_parameters())
    masks = checkpoint.convolution_masks(model, options.seed)
    return [(parameters[name], mask.to(options.device)) for name, mask in masks.items()]


def train(model: nn.Module, pool: Pool, options: argparse.Namespace) -> None:
    """Train in place with AdamW on a one-cycle schedule, in bfloat16 autocast, masking the weights after each step."""
    generator = torch.Generator().manual_seed(options.seed)
    draw, masked = Draw(*pool, generator), masked_parameters(model, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.steps, pct_start=0.1)
    apply_masks(masked)
    model.train()
    for step in range(1, options.steps + 1):
        images, labels = draw(options.batch)
        loss = loss_of(model, augment(images, generator), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        apply_masks(masked)
        if step % 100 == 0 or step == options.steps:
            print(f"step {step}/{options.steps}  loss {loss.item():.3f}", flush=True)


def loss_of(model: nn.Module, batch: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with torch.autocast(batch.device.type, dtype=torch.bfloat16):
        logits = model(batch.contiguous(memory_format=torch.channels_last))
        return nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)


@torch.no_grad()
def apply_masks(masked: list[tuple[nn.Parameter, torch.Tensor]]) -> None:
    for weight, mask in masked:
        weight.mul_(mask)


@torch.inference_mode()
def top1(model: nn.Module, pool: Pool, values: Callable[[torch.Tensor], torch.Tensor], device: str) -> float:
    """Return the top-1 accuracy in percent, in FP32 (no TF32)."""
    correct = 0
    for images, labels in zip(*(tensor.to(device).split(CHUNK) for tensor in pool), strict=True):
        logits = model(values(images.float()).permute(0, 3, 1, 2))
        correct += int((logits.argmax(1) == labels).sum())
    return 100 * correct / len(pool[0])


def measure(path: Path, validation: dict[str, Pool], options: argparse.Namespace) -> dict[str, float | int]:
    """Return what each way of preprocessing gives with the written weights."""
    model = getattr(torchvision.models, options.model)(num_classes=LABELS)
    model = checkpoint.load_checkpoint(model, path).to(options.device)
    found = {
        name: top1(model, validation[geometry], values, options.device)
        for name, (geometry, values) in PREPROCESSING.items()
    }
    return {
        "validation_images": options.validation_images,
        "top1_fp32_percent": found.pop("correct"),
        "top1_fp32_percent_with_mistake": found,
    }


def train_and_save(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Write the weights; return how they were made."""
    # Rendered before CUDA is initialised, since the workers are forked.
    members = digits.split_digits("train")[: LABELS * options.digits_per_class]  # classes take turns
    pairs = [(digit, variant) for variant in range(options.variants) for digit in members]
    pairs = pairs[: options.steps * options.batch]
    pool = [tensor.to(options.device) for tensor in render_pool(pairs, options.workers, "wider")]
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    model = getattr(torchvision.models, options.model)(num_classes=LABELS)
    model = model.to(options.device, memory_format=torch.channels_last)
    train(model, pool, options)
    kept = checkpoint.save_checkpoint(model, path, options.seed)
    names = ("model", "seed", "steps", "batch", "lr", "digits_per_class", "variants")
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions |= {"torchvision": torchvision.__version__, "numpy": np.__version__}
    return {
        **{name: getattr(options, name) for name in names},
        "density": checkpoint.DENSITY,
        "renderer_version": digits.VERSION,
        "train_images": len(pairs),
        "kept_weights": kept,
        "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else platform.machine(),
        "versions": versions,
        "size_bytes": path.stat().st_size,
        "sha256": sha256(path),
    }


def main() -> None:
    options = arguments()
    path = options.out / f"{options.model}.npz"
    pairs = list(islice(digits.variants("validation"), options.validation_images))
    validation = {name: render_pool(pairs, options.workers, name) for name in ("centre", "squeezed", "corner")}
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    record_path = path.with_suffix(".json")
    record = json.loads(record_path.read_text()) if options.measure else train_and_save(path, options)
    record |= measure(path, validation, options)
    write_json(record_path, record)
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
