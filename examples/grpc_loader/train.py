"""Train a small convolutional network on batches that come over gRPC: plain PyTorch under DDP."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from loader import GrpcLoader


def network() -> nn.Module:
    """Logits of ten digits for images of 1 x 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def train_epoch(model, loader, optimizer, device) -> float:
    """One pass over this rank's share; returns the mean loss of its samples."""
    model.train()
    total, seen = 0.0, 0
    for _ids, images, labels in loader:
        loss = cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        seen += len(labels)
    return total / seen


@torch.no_grad()
def accuracy(model, loader, device) -> float:
    """The share of right answers over the samples of all ranks."""
    model.eval()
    counts = torch.zeros(2, device=device)  # right, seen
    for _ids, images, labels in loader:
        answers = model(images.to(device)).argmax(dim=1)
        counts += torch.tensor([(answers == labels.to(device)).sum(), len(labels)], device=device)
    dist.all_reduce(counts)
    right, seen = counts.tolist()
    return right / seen


def main(args: argparse.Namespace) -> None:
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    torch.manual_seed(args.seed)

    train = GrpcLoader("train", args.batch_size, seed=args.seed)
    test = GrpcLoader("test", args.batch_size)
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        loss = train_epoch(model, train, optimizer, device)
        print(f"epoch={epoch} rank={rank} train_loss={loss:.6f}", flush=True)

    share = accuracy(model, test, device)
    if rank == 0:
        print(f"test_accuracy={share:.4f}", flush=True)
        torch.save(model.module.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
