"""Train a small network on what Ray Data prepares: plain PyTorch under DDP."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pipeline
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import launcher.data.ray


def network() -> nn.Module:
    """Logits of ten digits for images of 1 x 8 x 8."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 6 * 6, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


def train_epoch(model, share, optimizer, batch_size: int, device) -> float:
    """One pass over this rank's share; returns the mean loss of its samples."""
    model.train()
    total, seen = 0.0, 0
    for batch in share.iter_torch_batches(batch_size=batch_size, device=device):
        loss = cross_entropy(model(batch["image"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch["label"])
        seen += len(batch["label"])
    return total / seen


@torch.no_grad()
def accuracy(model, share, batch_size: int, device) -> float:
    """The share of right answers over the samples of all ranks."""
    model.eval()
    counts = torch.zeros(2, device=device)  # right, seen
    for batch in share.iter_torch_batches(batch_size=batch_size, device=device):
        answers = model.module(batch["image"]).argmax(dim=1)
        right = (answers == batch["label"]).sum()
        counts += torch.tensor([right, len(answers)], device=device)
    dist.all_reduce(counts)
    right, seen = counts.tolist()
    return right / seen


def main(args: argparse.Namespace) -> None:
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    torch.manual_seed(args.seed)
    launcher.data.ray.join_cluster(options=["--object-store-memory=200000000"])

    # equal: else ranks would wait for each other's steps
    train = launcher.data.ray.split(pipeline.train_set, equal=True)
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        loss = train_epoch(model, train, optimizer, args.batch_size, device)
        print(f"epoch={epoch} rank={rank} train_loss={loss:.6f}", flush=True)

    test = launcher.data.ray.split(pipeline.test_set, equal=False)
    share = accuracy(model, test, args.batch_size, device)
    if rank == 0:
        print(f"test_accuracy={share:.4f}", flush=True)
        torch.save(model.module.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
