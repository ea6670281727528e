"""Models whose own code does something else in eval mode, or draws random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

WIDTH = 6


@dataclass(frozen=True, kw_only=True)
class Made:
    """How a model is made and called; its loss is computed from all of its output."""

    make: Callable[[], nn.Module]
    arguments: Callable[[], dict[str, Any]]
    loss: Callable[[Any], torch.Tensor] | None = None


class Blocks(nn.Module):
    """A model of linear blocks, the base of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(WIDTH, 3)


class FunctionalDropout(Blocks):
    """Drops out in its own code, as ghostnet and senet do, beside an nn.Dropout."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = functional.dropout(block(x).tanh(), 0.3, self.training)
            x = self.drop(x)
        return self.head(functional.dropout(self.norm(x), p=0.2, training=self.training))


class ByHand(Blocks):
    """Draws noise in train mode, and calibrates in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.calibration = nn.Linear(WIDTH, WIDTH)
        self.shift = nn.Parameter(torch.ones(WIDTH))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x).sigmoid()
            if self.training:
                x = x + 0.1 * torch.randn_like(x) * torch.bernoulli(torch.full_like(x, 0.5))
            elif number == 2:
                x = self.calibration(x) * self.scale + self.shift
        return self.head(self.norm(x))


class Heads(NamedTuple):
    logits: torch.Tensor
    second: torch.Tensor | None
    first: torch.Tensor | None


class AuxiliaryHeads(Blocks):
    """Has two more outputs in train mode, as googlenet does."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.2))
        self.second = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.blocks[1](self.blocks[0](x)).tanh()
        first = self.first(x) if self.training else None
        x = self.blocks[3](self.blocks[2](x)).tanh()
        second = self.second(x) if self.training else None
        x = self.head(self.drop(self.norm(self.blocks[4](x))))
        return Heads(x, second, first) if self.training else x


class AlwaysDrawing(Blocks):
    """Draws in both modes, as diffusion models do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + torch.rand(x.shape, dtype=x.dtype) * torch.rand(size=x.shape, dtype=x.dtype)
            x = block(x).tanh()
        return self.head(self.norm(x))


class Encoder(nn.Module):
    """Drops out in its own code between its layers, as BART's encoder and decoder do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.drop = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(x, 0.3, self.training)
        for layer in self.layers:
            x = functional.dropout(self.drop(layer(x)).tanh(), 0.2, training=self.training)
        return x


class TwoEncoders(nn.Module):
    """Has modules that drop out in their own code, one within the other, and does so itself."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Encoder()
        self.decoder.layers[1] = Encoder()
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.decoder(functional.dropout(self.encoder(x), 0.2, self.training)))


class CalledTwice(nn.Module):
    """Calls a module that drops out in its own code two times."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in (1, 3):
                x = self.encoder(x)
        return x


def arguments() -> dict[str, Any]:
    return {"x": torch.randn(4, WIDTH)}


ZOO = {
    each.__name__: Made(make=each, arguments=arguments)
    for each in (
        *(FunctionalDropout, ByHand, AuxiliaryHeads, AlwaysDrawing),
        *(TwoEncoders, CalledTwice),
    )
}
