"""A model with Llama's names and shapes, and a script that makes checkpoints of it of any size.

    python tests/parallel/llama_shaped.py FOLDER --layers 32 --width 4096 --hidden 11008

writes 13.5 GB in bfloat16 as sparse files of zeros, which take no room on the disk, in shards of
`--shard` bytes; with --seed, random values.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

from launcher.parallel.pretrained import without_weights, write_tensors

INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    layers: int = 4
    width: int = 16
    hidden: int = 40
    vocab: int = 64
    heads: int = 2
    tied: bool = False
    dtype: str = "float32"


class Norm(nn.Module):
    def __init__(self, width, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=dtype))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    def __init__(self, sizes, dtype):
        super().__init__()
        self.heads = sizes.heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(sizes.width, sizes.width, bias=False, dtype=dtype))

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        parts = [
            each(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for each in (self.q_proj, self.k_proj, self.v_proj)
        ]
        q, k = (each * cos + _turned(each) * sin for each in parts[:2])
        out = scaled_dot_product_attention(q, k, parts[2], is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, width))


def _turned(x):
    one, other = x.chunk(2, dim=-1)
    return torch.cat((-other, one), dim=-1)


class Mlp(nn.Module):
    def __init__(self, sizes, dtype):
        super().__init__()
        self.gate_proj = nn.Linear(sizes.width, sizes.hidden, bias=False, dtype=dtype)
        self.up_proj = nn.Linear(sizes.width, sizes.hidden, bias=False, dtype=dtype)
        self.down_proj = nn.Linear(sizes.hidden, sizes.width, bias=False, dtype=dtype)

    def forward(self, x):
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, sizes, dtype):
        super().__init__()
        self.self_attn, self.mlp = Attention(sizes, dtype), Mlp(sizes, dtype)
        self.input_layernorm = Norm(sizes.width, dtype)
        self.post_attention_layernorm = Norm(sizes.width, dtype)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Rotary(nn.Module):
    """Its table is in no checkpoint."""

    def __init__(self, size):
        super().__init__()
        rates = 1e4 ** (-torch.arange(0, size, 2).float() / size)
        self.register_buffer("inv_freq", rates, persistent=False)

    def forward(self, x):
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * self.inv_freq
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class Body(nn.Module):
    def __init__(self, sizes, dtype):
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocab, sizes.width, dtype=dtype)
        self.layers = nn.ModuleList(Layer(sizes, dtype) for _ in range(sizes.layers))
        self.norm = Norm(sizes.width, dtype)
        self.rotary_emb = Rotary(sizes.width // sizes.heads)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        cos, sin = self.rotary_emb(x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class LlamaShaped(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        dtype = getattr(torch, sizes.dtype)
        self.model = Body(sizes, dtype)
        self.lm_head = nn.Linear(sizes.width, sizes.vocab, bias=False, dtype=dtype)
        if sizes.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids):
        return self.lm_head(self.model(input_ids))


def write_checkpoint(folder: Path, sizes: Sizes, *, shard: int, seed: int | None = None) -> int:
    """Write a checkpoint and return the bytes of its weights; without a seed, zeros and sparse."""
    with without_weights():
        model = LlamaShaped(sizes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"dtype": sizes.dtype, **asdict(sizes)}))
    shards: list[dict[str, torch.Tensor]] = [{}]
    for name, each in model.named_parameters():  # tied ones once
        if shards[-1] and sum(x.nbytes for x in shards[-1].values()) + each.nbytes > shard:
            shards.append({})
        shards[-1][name] = each.detach()
    total, places = 0, {}
    draw = None if seed is None else torch.Generator().manual_seed(seed)
    for number, tensors in enumerate(shards, start=1):
        file = folder / f"model-{number:05}-of-{len(shards):05}.safetensors"
        places |= dict.fromkeys(tensors, file.name)
        total += sum(each.nbytes for each in tensors.values())
        if draw is None:
            _write_sparse(tensors, file)
        else:
            made = {
                name: torch.randn(each.shape, generator=draw).mul(0.3).to(each.dtype)
                for name, each in tensors.items()
            }
            write_tensors(made, file)
    (folder / INDEX).write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": places})
    )
    return total


def _write_sparse(tensors: dict[str, torch.Tensor], file: Path) -> None:
    """Write a header, and a hole for what follows."""
    names = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}
    header, end = {}, 0
    for name, each in tensors.items():
        begin, end = end, end + each.nbytes
        header[name] = {
            "dtype": names[each.dtype], "shape": list(each.shape), "data_offsets": [begin, end]
        }  # fmt: skip
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + end)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, default in (("layers", 32), ("width", 4096), ("hidden", 11008), ("vocab", 32000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--shard", type=int, default=5 * 10**9)
    parser.add_argument("--seed", type=int)
    given = vars(parser.parse_args())
    folder, shard, seed = (given.pop(name) for name in ("folder", "shard", "seed"))
    total = write_checkpoint(folder, Sizes(**given), shard=shard, seed=seed)
    print(f"{total:,} bytes of weights in {folder}")


if __name__ == "__main__":
    main()
