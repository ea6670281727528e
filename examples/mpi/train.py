"""Fit a small network to a wave, data parallel under MPI: plain PyTorch over gloo or NCCL."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import nn

from launcher import parallel
from launcher.parallel.gradients import clip, replicate


def wave(samples: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a curve: what it is asked for, and what is right."""
    x = torch.rand(samples, 1, generator=generator) * 2 - 1
    return x, torch.sin(3 * x)


def main(args: argparse.Namespace) -> None:
    world = parallel.init()  # the ranks' places are those that mpirun gave them
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    model = replicate(net, world)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(args.seed + parallel.dp_rank())
    for step in range(args.steps):
        x, right = wave(args.batch_size, generator)  # each rank its own points
        loss = nn.functional.mse_loss(model(x.to(world.device)), right.to(world.device))
        optimizer.zero_grad()
        loss.backward()
        clip(model.parameters(), 1.0, world)
        optimizer.step()
        if step % 50 == 49:
            host = os.environ["SM_CURRENT_HOST"]
            print(f"step={step + 1} rank={parallel.rank()} host={host} loss={loss.item():.6f}")

    if parallel.rank() == 0:
        x, right = wave(1000, torch.Generator().manual_seed(-1))
        with torch.no_grad():
            error = nn.functional.mse_loss(net(x.to(world.device)), right.to(world.device))
        print(f"ranks={parallel.size()} test_error={error.item():.6f}", flush=True)
        torch.save(net.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt")
    parallel.leave()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32, help="points per rank and step")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
