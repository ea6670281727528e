"""The same with mpi4py alone: the ranks add up their gradients by MPI's own Allreduce."""

from __future__ import annotations

import argparse

import torch
from mpi4py import MPI
from torch import nn
from train import wave


def average(model: nn.Module, ranks: MPI.Comm) -> None:
    """Make the gradients the mean of all ranks'."""
    for parameter in model.parameters():
        gradient = parameter.grad.numpy()
        ranks.Allreduce(MPI.IN_PLACE, gradient)
        gradient /= ranks.size


def main(args: argparse.Namespace) -> None:
    ranks = MPI.COMM_WORLD
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(args.seed + ranks.rank)
    for _ in range(args.steps):
        x, right = wave(args.batch_size, generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), right).backward()
        average(model, ranks)
        optimizer.step()

    x, right = wave(1000, torch.Generator().manual_seed(-1))
    with torch.no_grad():
        error = ranks.allreduce(nn.functional.mse_loss(model(x), right).item()) / ranks.size
    if ranks.rank == 0:
        print(f"ranks={ranks.size} test_error={error:.6f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32, help="points per rank and step")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
