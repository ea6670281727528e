"""Train on handwritten digits with Accelerate: the loaders are the only thing of Launcher's."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device, set_seed
from torch import nn
from torch.nn.functional import cross_entropy

from launcher.data import DataLoader


def accuracy(accelerator, model, test) -> float:
    """The share of right answers; gather_for_metrics leaves out what pads the last step."""
    model.eval()
    right = seen = 0
    for batch in test:
        batch = send_to_device(batch, accelerator.device)
        with torch.no_grad():
            answers = model(batch["pixel_values"]).argmax(dim=1)
        answers, labels = accelerator.gather_for_metrics((answers, batch["labels"]))
        right += (answers == labels).sum().item()
        seen += len(labels)
    return right / seen


def main(args: argparse.Namespace) -> None:
    set_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=not torch.cuda.is_available())
    train = DataLoader("pipeline:train_set", args.batch_size, shuffle=True, epochs=args.epochs)
    test = DataLoader("pipeline:test_set", args.batch_size)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)

    for epoch in range(args.epochs):
        model.train()
        total = torch.zeros((), device=accelerator.device)
        for batch in train:
            batch = send_to_device(batch, accelerator.device)
            with accelerator.accumulate(model):
                loss = cross_entropy(model(batch["pixel_values"]), batch["labels"])
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
        loss = accelerator.reduce(total, "mean").item() / len(train)
        accelerator.print(f"epoch={epoch} train_loss={loss:.6f}", flush=True)

    share = accuracy(accelerator, model, test)
    accelerator.print(f"test_accuracy={share:.4f}", flush=True)
    accelerator.save(
        accelerator.unwrap_model(model).state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt"
    )
    accelerator.end_training()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.003)
    main(parser.parse_args())
