"""Train the lab's own ResNet-50 or ResNet-18 on cluttered digits (about two minutes on one H200 with 16 CPU cores).

    python datasets/train_weights.py --model resnet50 --out datasets/weights

Needs torch, torchvision and NumPy alone. A pool of training images is rendered by all cores first; random crops and
colour jitter are drawn on the device. Convolution weights stay masked to a seeded random tenth, so that the checkpoint
holds only the kept values; its top-1 is measured in FP32 from the written file, on validation digits never trained on.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torchvision
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers import checkpoint, digits
from helpers.files import sha256, write_json

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROP = 224
CHUNK = 32
CROPS_PER_BATCH = 12
LABELS = len(digits.CLASSES)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["resnet18", "resnet50"], default="resnet50")
    parser.add_argument("--out", type=Path, required=True, help="folder for MODEL.npz and MODEL.json")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=int, default=32, help="rendered images of each training digit")
    parser.add_argument("--validation-images", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def render_pool(pairs: list[tuple[int, int]], workers: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Render (digit, variant) pairs on all cores; return uint8 images [N, 256, 256, 3] and int64 labels [N]."""
    images = np.empty((len(pairs), digits.SIZE, digits.SIZE, 3), dtype=np.uint8)
    chunks = [pairs[start : start + CHUNK] for start in range(0, len(pairs), CHUNK)]
    with multiprocessing.Pool(workers) as pool:
        for index, rendered in enumerate(pool.imap(digits.render_many, chunks)):
            images[index * CHUNK : index * CHUNK + len(rendered)] = rendered
    labels = digits.load_digits()[1][[digit for digit, _ in pairs]]
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))


def normalize(images: torch.Tensor) -> torch.Tensor:
    """uint8 [N, H, W, 3] → float32 [N, 3, H, W] with ImageNet's mean and standard deviation."""
    mean, std = (torch.tensor(values, device=images.device) for values in (MEAN, STD))
    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2)


def augment(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Crop 224×224 at random places (a dozen a batch) and jitter contrast and brightness of each image's channels."""
    parts = []
    for part in images.chunk(CROPS_PER_BATCH):
        top, left = torch.randint(0, digits.SIZE - CROP + 1, (2,), generator=generator).tolist()
        parts.append(part[:, top : top + CROP, left : left + CROP])
    batch = normalize(torch.cat(parts))
    gain, offset = torch.randn(2, len(batch), 3, 1, 1, generator=generator).to(batch.device) * 0.15
    return batch * (1 + gain) + offset


def batches(images: torch.Tensor, labels: torch.Tensor, options: argparse.Namespace) -> Iterator[tuple]:
    """Yield `steps` augmented batches; every image is seen once before any is seen again."""
    generator = torch.Generator().manual_seed(options.seed)
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(options.steps):
        while len(order) < options.batch:
            order = torch.cat([order, torch.randperm(len(images), generator=generator)])
        chosen, order = order[: options.batch].to(images.device), order[options.batch :]
        yield augment(images[chosen], generator), labels[chosen]


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, options: argparse.Namespace) -> None:
    """Train in place with AdamW on a one-cycle schedule, in bfloat16 autocast, masking the weights after each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.steps, pct_start=0.2)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.1)
    masks = checkpoint.convolution_masks(model, options.seed)
    masked = [(dict(model.named_parameters())[name], mask.to(options.device)) for name, mask in masks.items()]
    apply_masks(masked)
    model.train()
    for step, (batch, target) in enumerate(batches(images, labels, options), start=1):
        with torch.autocast(options.device, dtype=torch.bfloat16):
            loss = loss_function(model(batch.contiguous(memory_format=torch.channels_last)), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        apply_masks(masked)
        if step % 100 == 0 or step == options.steps:
            print(f"step {step}/{options.steps}  loss {loss.item():.3f}", flush=True)


@torch.no_grad()
def apply_masks(masked: list[tuple[nn.Parameter, torch.Tensor]]) -> None:
    for weight, mask in masked:
        weight.mul_(mask)


@torch.inference_mode()
def top1(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the top-1 accuracy in percent, in FP32 (no TF32), on centre crops."""
    edge = (digits.SIZE - CROP) // 2
    correct = 0
    for start in range(0, len(images), CHUNK):
        crop = images[start : start + CHUNK, edge : edge + CROP, edge : edge + CROP]
        correct += int((model(normalize(crop)).argmax(1) == labels[start : start + CHUNK]).sum())
    return 100 * correct / len(images)


def provenance(options: argparse.Namespace, path: Path, **measured: float | int) -> dict:
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else platform.machine()
    settings = {name: getattr(options, name) for name in ("model", "seed", "steps", "batch", "lr", "variants")}
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions |= {"torchvision": torchvision.__version__, "numpy": np.__version__}
    return {
        **settings,
        "density": checkpoint.DENSITY,
        "renderer_version": digits.VERSION,
        **measured,
        "device": device,
        "versions": versions,
        "size_bytes": path.stat().st_size,
        "sha256": sha256(path),
    }


def timed_pool(split: str, count: int, options: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor]:
    start = time.perf_counter()
    per_digit = options.variants if split == "train" else None
    images, labels = render_pool(list(islice(digits.variants(split, per_digit), count)), options.workers)
    seconds = time.perf_counter() - start
    print(f"rendered {len(images)} {split} images in {seconds:.1f} s ({len(images) / seconds:.0f}/s)", flush=True)
    return images, labels


def main() -> None:
    options = arguments()
    start = time.perf_counter()
    pools = [timed_pool("train", options.steps * options.batch, options)]  # workers fork before CUDA is initialised
    pools.append(timed_pool("validation", options.validation_images, options))
    (images, labels), validation = [[part.to(options.device) for part in pool] for pool in pools]
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    new_model = getattr(torchvision.models, options.model)
    model = new_model(num_classes=LABELS).to(options.device, memory_format=torch.channels_last)
    train(model, images, labels, options)
    path = options.out / f"{options.model}.npz"
    kept = checkpoint.save_checkpoint(model, path, options.seed)
    written = checkpoint.load_checkpoint(new_model(num_classes=LABELS), path).to(options.device)
    accuracy = top1(written, *validation)
    record = provenance(
        options,
        path,
        train_images=len(images),
        validation_images=len(validation[0]),
        top1_fp32_percent=accuracy,
        kept_weights=kept,
        seconds=round(time.perf_counter() - start, 1),
    )
    write_json(path.with_suffix(".json"), record)
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
