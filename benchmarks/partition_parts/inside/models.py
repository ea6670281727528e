"""The models that are cut: what takes time, what has parameters and what is kept lie apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from partition_parts.inside.subject import Batch, Subject
from trainers_parts.inside.gpt import Block

_CLASSES = 10


def gpt(
    *, width: int = 256, layers: int = 6, vocabulary: int = 8192, length: int = 64, samples: int = 1
) -> Subject:
    """A transformer whose head takes as long as several layers."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        blocks = (Block(width, 4, 0.0) for _ in range(layers))
        head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary))
        return nn.Sequential(nn.Embedding(vocabulary, width), *blocks, head)

    def batch(count: int) -> Batch:
        text = torch.randint(vocabulary, (count, length + 1), generator=_generator())
        return text[:, :-1], text[:, 1:]

    return Subject(
        make=make,
        batch=batch,
        samples=samples,
        loss=lambda output, target: functional.cross_entropy(
            output.flatten(0, 1), target.flatten()
        ),
    )


def pyramid(
    *,
    widths: Sequence[int] = (16, 32, 64, 128),
    repeats: int = 2,
    hidden: Sequence[int] = (),
    side: int = 32,
    samples: int = 6,
) -> Subject:
    """A ResNet: its activations are early, and its parameters late.

    widths: channels, after each of which the image is half as wide; with `repeats` blocks each.
    hidden: widths of linear layers behind them.
    """
    last = side >> len(widths)

    def make() -> nn.Module:
        torch.manual_seed(0)
        levels = (_level(*pair, repeats) for pair in pairwise((widths[0], *widths)))
        ends = (last * last * widths[-1], *hidden)
        return nn.Sequential(
            nn.Conv2d(3, widths[0], 3, padding=1),
            *(each for level in levels for each in level),
            nn.Flatten(),
            *(nn.Sequential(nn.Linear(*pair), nn.ReLU()) for pair in pairwise(ends)),
            nn.Linear(ends[-1], _CLASSES),
        )

    return Subject(make=make, batch=_images(side), samples=samples, loss=functional.cross_entropy)


def _level(before: int, width: int, repeats: int) -> list[nn.Module]:
    widen = nn.Conv2d(before, width, 1)
    return [widen, *(Residual(width) for _ in range(repeats)), nn.MaxPool2d(2)]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.norm(self.first(x)).relu())


def unet(*, width: int = 16, depth: int = 3, side: int = 32, samples: int = 6) -> Subject:
    """Down and up again: what each level has made is needed once more at its other end."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        return UNet(width, depth)

    def batch(count: int) -> Batch:
        images, _ = _images(side)(count)
        return images, images

    return Subject(make=make, batch=batch, samples=samples, loss=functional.mse_loss)


class UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width << level for level in range(depth)]
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(_Down(narrow) for narrow in widths)
        self.middle = Residual(width << depth)
        self.up = nn.ModuleList(_Up(narrow) for narrow in reversed(widths))
        self.head = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x, skipped = self.stem(input), []
        for level in self.down:
            x = level.residual(x)
            skipped.append(x)
            x = level.shrink(x)
        x = self.middle(x)
        for level in self.up:
            x = level.residual(level.grow(x) + skipped.pop())
        return self.head(x)


class _Down(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.residual = Residual(width)
        self.shrink = nn.Conv2d(width, 2 * width, 2, stride=2)


class _Up(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.grow = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.residual = Residual(width)


def taper(*, first: int = 2048, layers: int = 8, samples: int = 32) -> Subject:
    """Linear layers, each but the first few half as wide as the one before."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        widths = [max(first >> (number // 2), _CLASSES) for number in range(layers)]
        hidden = (nn.Sequential(nn.Linear(*pair), nn.GELU()) for pair in pairwise(widths))
        return nn.Sequential(*hidden, nn.Linear(widths[-1], _CLASSES))

    def batch(count: int) -> Batch:
        inputs = torch.randn(count, first, generator=_generator())
        return inputs, _classes(count)

    return Subject(make=make, batch=batch, samples=samples, loss=functional.cross_entropy)


def _images(side: int) -> Callable[[int], Batch]:
    return lambda count: (
        torch.randn(count, 3, side, side, generator=_generator()),
        _classes(count),
    )


def _classes(count: int) -> torch.Tensor:
    return torch.randint(_CLASSES, (count,), generator=_generator())


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


MODELS = {"gpt": gpt, "pyramid": pyramid, "unet": unet, "taper": taper}
