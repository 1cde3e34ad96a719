"""Four small classifiers of handwritten digits, as formulas that practice writes down or by torch's own functions, and their training."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BATCH = 64
EPS = 1e-5


class LayerNorm(nn.Module):
    """By E[x²] - E[x]², or by torch's own function."""

    def __init__(self, width: int, formulas: bool) -> None:
        super().__init__()
        self.weight, self.bias, self.formulas = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), formulas

    def forward(self, x: Tensor) -> Tensor:
        if not self.formulas:
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, EPS)
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) / torch.sqrt(variance + EPS) * self.weight + self.bias


class BatchNorm(nn.Module):
    """The same over a batch of images; statistics of evaluation are running means."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, formulas: bool) -> None:
        super().__init__()
        self.weight, self.bias, self.formulas = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), formulas
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if not self.formulas:
            return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, self.training, 0.1, EPS)
        shape = (1, -1, 1, 1)
        if self.training:
            mean = x.mean((0, 2, 3), keepdim=True)
            variance = (x * x).mean((0, 2, 3), keepdim=True) - mean * mean
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * mean.reshape(-1))
                self.variance.mul_(0.9).add_(0.1 * variance.reshape(-1))
        else:
            mean, variance = self.mean.reshape(shape), self.variance.reshape(shape)
        return (x - mean) / torch.sqrt(variance + EPS) * self.weight.reshape(shape) + self.bias.reshape(shape)


class Classifier(nn.Module):
    """Layers of weights with a normalization and a SiLU between them; gives logits and the logarithms of probabilities.

    formulas: softmax, SiLU and normalizations are written down, else they are torch's. scales: of what each layer of weights is given,
    which is then rounded to 8-bit integers of that scale.
    """

    def __init__(self, layers: list[nn.Module], norms: list[nn.Module], formulas: bool) -> None:
        super().__init__()
        self.layers, self.norms, self.formulas = nn.ModuleList(layers), nn.ModuleList(norms), formulas
        self.scales: tuple[float, ...] | None = None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for index, layer in enumerate(self.layers):
            x = layer(self.given(index, x))
            if index < len(self.norms):
                x = self.norms[index](x)
            if index + 1 < len(self.layers):
                x = x / (1 + torch.exp(-x)) if self.formulas else F.silu(x)
        if not self.formulas:
            return x, F.log_softmax(x, -1)
        e = torch.exp(x)
        return x, torch.log(e / e.sum(-1, keepdim=True))

    def given(self, index: int, x: Tensor) -> Tensor:
        """What a layer of weights is given: images as rows before the first linear one, and rounded if there are scales."""
        if isinstance(self.layers[index], nn.Linear):
            x = x.flatten(1)
        return x if self.scales is None else rounded(x, self.scales[index])


def rounded(x: Tensor, scale: float) -> Tensor:
    """To the nearest of 255 multiples of the scale: 8 bits, symmetric."""
    return torch.clamp(torch.round(x / scale), -127, 127) * scale


def network(name: str, formulas: bool) -> Classifier:
    """MLP-2, MLP-4, CNN-4 or CNN-6, with new parameters."""
    kind, _, depth = name.partition("-")
    if kind == "MLP":
        widths = [64, *[128] * (int(depth) - 1), 10]
        layers: list[nn.Module] = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
        return Classifier(layers, [LayerNorm(width, formulas) for width in widths[1:-1]], formulas)
    channels = {4: (16, 32), 6: (16, 16, 32, 32)}[int(depth)]
    half = len(channels) // 2
    convolutions: list[nn.Module] = [
        nn.Conv2d(a, b, 3, padding=1, stride=2 if i == half else 1) for i, (a, b) in enumerate(zip((1, *channels), channels, strict=False))
    ]
    return Classifier(
        [*convolutions, nn.Linear(channels[-1] * 16, 64), nn.Linear(64, 10)], [BatchNorm(c, formulas) for c in channels], formulas
    )


NETWORKS = ("MLP-2", "MLP-4", "CNN-4", "CNN-6")


class Digits:
    """scikit-learn's 1797 images of 8×8 pixels between 0 and 16, a quarter of them for testing."""

    def __init__(self) -> None:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        images, labels = load_digits(return_X_y=True)
        split = train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)
        self.train, self.test = (torch.tensor(x, dtype=torch.float32).reshape(-1, 1, 8, 8) for x in split[:2])
        self.train_labels, self.test_labels = (torch.tensor(y) for y in split[2:])

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The training images in a random order, in full batches."""
        order = torch.randperm(len(self.train), generator=torch.Generator().manual_seed(seed))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield self.train[chosen], self.train_labels[chosen]


def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    found: Tensor = -model(images)[1].gather(1, labels[:, None]).mean()
    return found


def trained(model: nn.Module, digits: Digits, epochs: int, rate: float = 1e-3) -> list[float]:
    """Trains the model by Adam, and returns the loss of each step."""
    optimizer = torch.optim.Adam(model.parameters(), rate)
    model.train()
    losses = []
    for epoch in range(epochs):
        for images, labels in digits.batches(epoch):
            optimizer.zero_grad()
            loss = loss_of(model, images, labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(float(loss.detach()))
    model.eval()
    return losses


def with_parameters_of(model: Classifier, name: str, formulas: bool) -> Classifier:
    """The network in the other way of writing, or the same, on copies of the parameters."""
    other = network(name, formulas)
    other.load_state_dict(model.state_dict())
    return other.eval()


def in_int8(model: Classifier, images: Tensor) -> Classifier:
    """A copy with weights in 8-bit integers, one scale each, and activations rounded by the largest that these images give."""
    result = copy.deepcopy(model).eval()
    with torch.no_grad():
        for layer in result.layers:
            assert isinstance(layer, nn.Linear | nn.Conv2d)
            layer.weight.copy_(rounded(layer.weight, float(layer.weight.abs().max()) / 127))
    largest: list[float] = []
    watched = copy.deepcopy(result)
    for layer in watched.layers:
        layer.register_forward_pre_hook(lambda _, given: largest.append(float(given[0].abs().max())))
    with torch.no_grad():
        watched(images)
    result.scales = tuple(x / 127 for x in largest)
    return result
