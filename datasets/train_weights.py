"""Train the lab's own ResNet-50 or ResNet-18 on cluttered digits (about two minutes on one H200 with 16 CPU cores).

    python datasets/train_weights.py --model resnet50 --out datasets/weights

Needs torch, torchvision and NumPy alone. Pools of training images are rendered by all cores first; random crops and
colour jitter are drawn on the device. Training starts on images without clutter, since from a random start the masked
network finds no foothold in cluttered ones, and moves on once it reads those. Convolution weights stay masked to a
seeded random tenth, so that the checkpoint holds only the kept values; its top-1 is measured in FP32 from the written
file, on validation digits never trained on.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterable
from functools import partial
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
RECIPES = {"resnet50": (1800, 3e-3), "resnet18": (1500, 1e-3)}  # steps, peak learning rate
RAMP_STEPS = 200
READS = 1.2  # training loss at which the network reads plain digits (chance: 2.3, floor with smoothing: 0.5)
LABELS = len(digits.CLASSES)
Pool = tuple[torch.Tensor, torch.Tensor]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(RECIPES), default="resnet50")
    parser.add_argument("--out", type=Path, required=True, help="folder for MODEL.npz and MODEL.json")
    parser.add_argument("--steps", type=int, help="default: 1800 for resnet50, 1500 for resnet18")
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--lr", type=float, help="peak; default: 3e-3 for resnet50, 1e-3 for resnet18")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=int, default=32, help="rendered images of each training digit")
    parser.add_argument("--validation-images", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    steps, lr = RECIPES[options.model]
    options.steps, options.lr = options.steps or steps, options.lr or lr
    return options


def render_pool(pairs: list[tuple[int, int]], workers: int, clutter: bool = True) -> Pool:
    """Render (digit, variant) pairs on all cores; return uint8 images [N, 256, 256, 3] and int64 labels [N]."""
    images = np.empty((len(pairs), digits.SIZE, digits.SIZE, 3), dtype=np.uint8)
    chunks = [pairs[start : start + CHUNK] for start in range(0, len(pairs), CHUNK)]
    with multiprocessing.Pool(workers) as pool:
        for index, rendered in enumerate(pool.imap(partial(digits.render_many, clutter=clutter), chunks)):
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


class Curriculum:
    """The share of cluttered images: 0 until plain ones are read (or half of the steps have gone), then up to 1."""

    def __init__(self, steps: int) -> None:
        self.latest_start, self.started, self.ramp = steps // 2, 0, max(1, min(RAMP_STEPS, steps // 4))

    def share(self, step: int) -> float:
        return min(1.0, (step - self.started) / self.ramp) if self.started else 0.0

    def update(self, step: int, loss: float) -> None:
        if not self.started and (loss < READS or step >= self.latest_start):
            self.started = step
            print(f"step {step}: cluttered images from here on", flush=True)


def masked_parameters(model: nn.Module, options: argparse.Namespace) -> list[tuple[nn.Parameter, torch.Tensor]]:
    parameters = dict(model.named_parameters())
    masks = checkpoint.convolution_masks(model, options.seed)
    return [(parameters[name], mask.to(options.device)) for name, mask in masks.items()]


def train(model: nn.Module, plain: Pool, cluttered: Pool, options: argparse.Namespace) -> None:
    """Train in place with AdamW on a one-cycle schedule, in bfloat16 autocast, masking the weights after each step."""
    generator = torch.Generator().manual_seed(options.seed)
    draw_plain, draw_cluttered = Draw(*plain, generator), Draw(*cluttered, generator)
    curriculum, masked = Curriculum(options.steps), masked_parameters(model, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.steps, pct_start=0.1)
    apply_masks(masked)
    model.train()
    for step in range(1, options.steps + 1):
        count = round(curriculum.share(step) * options.batch)
        parts = [draw(n) for draw, n in ((draw_cluttered, count), (draw_plain, options.batch - count)) if n]
        images, labels = map(torch.cat, zip(*parts, strict=True))
        loss = loss_of(model, augment(images, generator), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        apply_masks(masked)
        if step % 10 == 0 or step == options.steps:
            curriculum.update(step, loss.item())
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


def timed_pool(pairs: Iterable[tuple[int, int]], most: int, options: argparse.Namespace, clutter: bool = True) -> Pool:
    start = time.perf_counter()
    images, labels = render_pool(list(islice(pairs, most)), options.workers, clutter)
    seconds = time.perf_counter() - start
    print(f"rendered {len(images)} images in {seconds:.1f} s ({len(images) / seconds:.0f}/s)", flush=True)
    return images, labels


def render_pools(options: argparse.Namespace) -> tuple[Pool, Pool, Pool]:
    """Return the plain training, cluttered training and validation pools."""
    most = options.steps * options.batch
    plain = timed_pool(digits.variants("train", max(1, options.variants // 4)), most, options, clutter=False)
    cluttered = timed_pool(digits.variants("train", options.variants), most, options)
    return plain, cluttered, timed_pool(digits.variants("validation"), options.validation_images, options)


def main() -> None:
    options = arguments()
    start = time.perf_counter()
    pools = render_pools(options)  # before CUDA is initialised, since the workers are forked
    plain, cluttered, validation = [(images.to(options.device), labels.to(options.device)) for images, labels in pools]
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    new_model = getattr(torchvision.models, options.model)
    model = new_model(num_classes=LABELS).to(options.device, memory_format=torch.channels_last)
    train(model, plain, cluttered, options)
    path = options.out / f"{options.model}.npz"
    kept = checkpoint.save_checkpoint(model, path, options.seed)
    written = checkpoint.load_checkpoint(new_model(num_classes=LABELS), path).to(options.device)
    accuracy = top1(written, *validation)
    record = provenance(
        options,
        path,
        train_images=len(plain[0]) + len(cluttered[0]),
        validation_images=len(validation[0]),
        top1_fp32_percent=accuracy,
        kept_weights=kept,
        seconds=round(time.perf_counter() - start, 1),
    )
    write_json(path.with_suffix(".json"), record)
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
