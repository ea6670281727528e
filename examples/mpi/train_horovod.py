"""The same with Horovod, which averages the gradients over MPI, or NCCL if it was built with it."""

from __future__ import annotations

import argparse

import horovod.torch as hvd
import torch
from torch import nn
from train import wave


def main(args: argparse.Namespace) -> None:
    hvd.init()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", hvd.local_rank())
        torch.cuda.set_device(device)
    torch.manual_seed(args.seed + hvd.rank())  # the first rank's weights are the ones that count
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=args.lr), model.named_parameters()
    )
    generator = torch.Generator().manual_seed(args.seed + hvd.rank())
    for _ in range(args.steps):
        x, right = (part.to(device) for part in wave(args.batch_size, generator))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), right).backward()
        optimizer.step()

    x, right = (part.to(device) for part in wave(1000, torch.Generator().manual_seed(-1)))
    with torch.no_grad():
        error = hvd.allreduce(nn.functional.mse_loss(model(x), right)).item()
    if hvd.rank() == 0:
        print(f"ranks={hvd.size()} test_error={error:.6f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32, help="points per rank and step")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
