"""A small PyTorch classifier whose outputs show training mode, by batch normalisation and dropout."""

import torch
from torch import nn


class ProbeClassifier(nn.Module):
    """Two convolutions with batch normalisation, dropout, and a linear layer whose weights are computed from constants.

    It takes float32 [N, 3, 224, 224] and returns [N, 13]: another number of classes than the lab's model.
    """

    def __init__(self) -> None:
        super().__init__()
        stem = nn.Conv2d(3, 8, 7, stride=4, padding=3, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        self.features = nn.Sequential(*stem, nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(16, 13)
        self.scale = nn.Parameter(torch.full((13, 1), 4.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits.

        Constant folding computes `head.weight * scale` once. The view uses the batch size, which shows if the batch
        axis is dynamic in name only.
        """
        maps = self.features(images)
        pooled = self.dropout(maps.view(maps.shape[0], maps.shape[1], -1).mean(2))
        return nn.functional.linear(pooled, self.head.weight * self.scale, self.head.bias)


def probe_classifier(seed: int, training: bool = False) -> ProbeClassifier:
    """Return the classifier with weights drawn from `seed`, on the CPU."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = ProbeClassifier()
        model(torch.randn(8, 3, 64, 64))  # gives batch normalisation its statistics
    return model.train(training)
