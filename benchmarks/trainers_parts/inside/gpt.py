"""The model that steps are timed with, and its data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 512


@dataclass(frozen=True, kw_only=True)
class Shape:
    """layers: beside the embedding and the head. length: tokens of a sample."""

    width: int = 256
    layers: int = 4
    heads: int = 4
    length: int = 64
    dropout: float = 0.1

    def model(self) -> nn.Sequential:
        """A transformer as a chain: embedding, `layers` blocks, head. Always the same weights."""
        torch.manual_seed(0)
        blocks = (Block(self.width, self.heads, self.dropout) for _ in range(self.layers))
        head = nn.Sequential(nn.LayerNorm(self.width), nn.Linear(self.width, VOCABULARY))
        return nn.Sequential(nn.Embedding(VOCABULARY, self.width), *blocks, head)

    def batch(self, number: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and those that follow them, both samples x length."""
        generator = torch.Generator().manual_seed(number)
        text = torch.randint(VOCABULARY, (samples, self.length + 1), generator=generator)
        return text[:, :-1], text[:, 1:]


class Block(nn.Module):
    """One layer, which drops at three places."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
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


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean over all tokens; output: samples x length x VOCABULARY."""
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())
