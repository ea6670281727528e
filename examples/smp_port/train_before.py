"""Train a small network on handwritten digits with SageMaker's model-parallel library."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import nll_loss
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import smdistributed.modelparallel.torch as smp
from digits import read


class Net(nn.Module):
    """Convolutions on partition 0, the classifier on partition 1; log-probabilities of digits."""

    def __init__(self) -> None:
        super().__init__()
        with smp.partition(0):
            self.features = nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1),
            )  # fmt: skip
        with smp.partition(1):
            self.classify = nn.Sequential(
                nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.3),
                nn.Linear(128, 10), nn.LogSoftmax(dim=1),
            )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(images))


@smp.step
def train_step(model, images, labels):
    output = model(images)
    loss = nll_loss(output, labels)
    model.backward(loss)
    return output, loss


@smp.step
def test_step(model, images, labels):
    output = model(images)
    return (output.argmax(dim=1) == labels).sum()


def train_epoch(model, loader, optimizer, device) -> float:
    """One pass over this replica's share; returns the loss of its last batch."""
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        _, losses = train_step(model, images.to(device), labels.to(device))
        optimizer.step()
    return losses.reduce_mean().item()


def accuracy(model, loader, device) -> float:
    """The share of right answers over the samples of all replicas."""
    model.eval()
    right, seen = 0, 0
    with torch.no_grad():
        for images, labels in loader:
            right += test_step(model, images.to(device), labels.to(device)).reduce_sum().item()
            seen += len(labels)
    shares = smp.allgather((right, seen), smp.DP_GROUP)
    return sum(right for right, _ in shares) / sum(seen for _, seen in shares)


def shared_out(dataset, batch_size: int, *, shuffle: bool) -> DataLoader:
    """What this replica reads: all its ranks the same, and each batch divisible."""
    sampler = DistributedSampler(dataset, smp.dp_size(), smp.dp_rank(), shuffle=shuffle)
    return DataLoader(dataset, batch_size, sampler=sampler, drop_last=True)


def main(args: argparse.Namespace) -> None:
    smp.init()
    torch.manual_seed(args.seed)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        torch.cuda.set_device(smp.local_rank())
        device = torch.device("cuda", smp.local_rank())

    data = Path(os.environ["SM_CHANNEL_DIGITS"])
    train = shared_out(read(data / "train"), args.batch_size, shuffle=True)
    test = shared_out(read(data / "test"), args.test_batch_size, shuffle=False)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    model = smp.DistributedModel(model)
    optimizer = smp.DistributedOptimizer(optimizer)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)
    for epoch in range(args.epochs):
        train.sampler.set_epoch(epoch)
        loss = train_epoch(model, train, optimizer, device)
        schedule.step()
        print(f"epoch={epoch} rank={smp.rank()} train_loss={loss:.6f}", flush=True)

    share = accuracy(model, test, device)
    if smp.rank() == 0:
        print(f"test_accuracy={share:.4f}", flush=True)
    if smp.dp_rank() == 0:
        state = model.state_dict()
        smp.save(state, str(Path(os.environ["SM_MODEL_DIR"]) / "model.pt"), partial=False)
    smp.barrier()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per replica and step")
    parser.add_argument("--test-batch-size", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
