"""Small models of many shapes, and an example of the arguments of each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.second = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.first(x)
        attended, _ = self.attention(normed, normed, normed, need_weights=False)
        x = x + self.drop(attended)
        return x + self.drop(self.feed(self.second(x)))


class Gpt(nn.Module):
    """Positions are a slice of a parameter, whose length is that of the input."""

    def __init__(self, *, tied: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(19, 8)
        self.places = nn.Parameter(torch.randn(1, 16, 8) / 10)
        self.blocks = nn.ModuleList([Block(8, dropout) for _ in range(4)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 19, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        _, length = ids.shape
        x = self.tokens(ids) + self.places[:, :length]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).view(-1, 19)


class Residual(nn.Module):
    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.convolve = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = norm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.norm(self.convolve(x)).relu()


def resnet(norm: Callable[[int], nn.Module]) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        *(Residual(norm) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 5),
    )


class UNet(nn.Module):
    """What goes down comes back: skips over any number of stages."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.up = nn.ModuleList([nn.Linear(12, 6) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for layer in self.down:
            x = layer(x).tanh()
            kept.append(x)
        for layer in self.up:
            x = layer(torch.cat([x, kept.pop()], dim=-1)).tanh()
        return x


class EncoderDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.embed = nn.Linear(4, 6)
        self.decoder = nn.ModuleList([nn.Linear(12, 6) for _ in range(2)])

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        for layer in self.encoder:
            source = layer(source).tanh()
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(torch.cat([x, source], dim=-1)).tanh()
        return x


class Shared(nn.Module):
    """One module that is called twice, far apart."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.mix = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.mix(self.layers[0](x).tanh())
        x = self.layers[1](x).tanh()
        return self.layers[2](self.mix(x))


class FrozenAndUnused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])
        self.layers[1].weight.requires_grad_(False)
        self.unused = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class Named(nn.Module):
    """Returns a dict, with a number in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        count = x.size(0)
        for layer in self.layers:
            x = layer(x).tanh()
        return {"output": x, "mean": x.sum() / count, "count": count}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 6)
        self.lstm = nn.LSTM(6, 6, batch_first=True)
        self.second = nn.LSTM(6, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, (hidden, _) = self.lstm(self.embed(x))
        x, _ = self.second(x)
        return self.head(x[:, -1] + hidden[-1])


class Depends(nn.Module):
    """One of its parts does what its input says."""

    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(6, 6)
            self.other = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x) if x.sum() > 0 else self.other(x)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), self.Gate(), self.Gate(), nn.Linear(6, 6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class ByMode(nn.Module):
    """Its layers drop out by a function, as their mode says."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(self.one(x).tanh(), 0.5, self.training)

    class Noisy(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                x = x + torch.randn(6)
            return self.one(x)

    def __init__(self) -> None:
        super().__init__()
        kinds = (self.Layer, self.Noisy, self.Layer, self.Noisy)
        self.layers = nn.ModuleList([kind() for kind in kinds])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class LayerDrop(nn.Module):
    """Its layers are left out at random, by Python's generator and by numpy's."""

    class Maybe(nn.Module):
        def __init__(self, draw: Callable[[], float]) -> None:
            super().__init__()
            self.draw = draw
            self.one = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x).tanh() if self.draw() < 0.5 else x

    def __init__(self) -> None:
        super().__init__()

        def by_python() -> float:
            return random.random()

        def by_numpy() -> float:
            return np.random.random()

        parts = [self.Maybe(draw) for draw in (by_python, by_numpy, by_python)]
        self.layers = nn.ModuleList([nn.Linear(6, 6), *parts])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """make: a model of random weights. shapes: of its arguments, by name; `ids` are whole numbers.

    starts: modules at which the second and later of four stages may begin.
    """

    make: Callable[[], nn.Module]
    shapes: dict[str, tuple[int, ...]]
    starts: tuple[str, str, str]

    def arguments(self, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {
            name: torch.randint(0, 19, shape, generator=generator)
            if name == "ids"
            else torch.randn(shape, generator=generator)
            for name, shape in self.shapes.items()
        }


def _mlp() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.GELU()) for _ in range(5)))


_LAYERS = ("layers.1", "layers.2", "layers.3")
_BLOCKS = ("blocks.1", "blocks.2.second", "head")

ARCHITECTURES = {
    "mlp": Architecture(make=_mlp, shapes={"input": (4, 6)}, starts=("1", "2.1", "4")),
    "resnet, group norm": Architecture(
        make=lambda: resnet(lambda width: nn.GroupNorm(2, width)),
        shapes={"input": (4, 3, 5, 5)},
        starts=("1", "3.norm", "7"),
    ),
    "resnet, batch norm": Architecture(
        make=lambda: resnet(nn.BatchNorm2d), shapes={"input": (4, 3, 5, 5)}, starts=("1", "3", "7")
    ),
    "u-net": Architecture(make=UNet, shapes={"x": (4, 6)}, starts=("down.1", "up.0", "up.2")),
    "gpt": Architecture(make=Gpt, shapes={"ids": (4, 9)}, starts=_BLOCKS),
    "gpt, tied": Architecture(make=lambda: Gpt(tied=True), shapes={"ids": (4, 9)}, starts=_BLOCKS),
    "encoder-decoder": Architecture(
        make=EncoderDecoder,
        shapes={"source": (4, 6), "target": (4, 4)},
        starts=("encoder.1", "embed", "decoder.1"),
    ),
    "shared": Architecture(
        make=Shared, shapes={"x": (4, 6)}, starts=("mix", "layers.1", "layers.2")
    ),
    "frozen and unused": Architecture(make=FrozenAndUnused, shapes={"x": (4, 6)}, starts=_LAYERS),
    "dict": Architecture(make=Named, shapes={"x": (4, 6)}, starts=_LAYERS),
    "lstm": Architecture(
        make=Recurrent, shapes={"x": (4, 5, 6)}, starts=("lstm", "second", "head")
    ),
    "dropout": Architecture(make=lambda: Gpt(dropout=0.3), shapes={"ids": (4, 9)}, starts=_BLOCKS),
    "by mode": Architecture(make=ByMode, shapes={"x": (4, 6)}, starts=_LAYERS),
    "layers left out": Architecture(make=LayerDrop, shapes={"x": (4, 6)}, starts=_LAYERS),
    "control flow inside": Architecture(make=Depends, shapes={"x": (4, 6)}, starts=_LAYERS),
}
