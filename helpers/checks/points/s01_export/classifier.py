"""A small PyTorch classifier whose training mode shows: batch normalisation and dropout give other outputs in it."""

import torch
from torch import nn


class ProbeClassifier(nn.Module):
    """Two convolutions with batch normalisation, dropout, and a linear layer whose weights are computed from constants.

    One convolution has a bias of its own: who folds normalisation by hand must not lose it.

    It takes float32 [N, 3, 224, 224] and returns [N, classes].
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=4, padding=3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(16, classes)
        self.scale = nn.Parameter(torch.ones(classes, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits [N, classes].

        `head.weight * scale` is what constant folding computes once; the view asks for the batch size, so that a
        batch axis that is symbolic by name alone shows.
        """
        maps = self.features(images)
        pooled = self.dropout(maps.view(maps.shape[0], maps.shape[1], -1).mean(2))
        return nn.functional.linear(pooled, self.head.weight * self.scale, self.head.bias)


def probe_classifier(seed: int, classes: int = 13, training: bool = False) -> ProbeClassifier:
    """Return the classifier whose weights `seed` decides, in training mode if asked for, on the CPU.

    It has not as many classes as the lab's model by default.
    """
    random = torch.Generator().manual_seed(seed)
    model = ProbeClassifier(classes)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(torch.randn(value.shape, generator=random) / max(1, value[0].numel()) ** 0.5)
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.copy_(torch.randn(layer.running_mean.shape, generator=random))
                layer.running_var.copy_(0.5 + torch.rand(layer.running_var.shape, generator=random))
    return model.train(training)
