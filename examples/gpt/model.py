"""A GPT that fits on a screen: characters in, the logits of the next ones out."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Attention(nn.Module):
    """Each place looks at those before it, with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.look = nn.Linear(width, 3 * width)
        self.combine = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        looks = self.look(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = looks.permute(2, 0, 3, 1, 4).unbind(0)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.combine(seen.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Look around, then think: each adds to what there was."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.before_look = nn.LayerNorm(width)
        self.look = Attention(width, heads)
        self.before_think = nn.LayerNorm(width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.look(self.before_look(x)))
        return x + self.drop(self.think(self.before_think(x)))


class Gpt(nn.Module):
    """From (batch, length) whole numbers to (batch, length, characters) logits."""

    def __init__(
        self, *, characters: int, length: int, width: int, layers: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(characters, width)
        self.places = nn.Parameter(torch.randn(1, length, width) / 50)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places[:, : ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
