"""Train on handwritten digits with Lightning: the loaders are the only thing of Launcher's."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import lightning
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from launcher.data import DataLoader


class DigitsModule(lightning.LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, _):
        loss = cross_entropy(self.net(batch["pixel_values"]), batch["labels"])
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch, _):
        right = self.net(batch["pixel_values"]).argmax(dim=1) == batch["labels"]
        self.log("test_accuracy", right.float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


class Printed(lightning.Callback):
    """Print an epoch's figures, which the job's metric definitions look for."""

    def on_train_epoch_end(self, trainer, _) -> None:
        if trainer.is_global_zero:
            figures = trainer.callback_metrics
            print(f"epoch={trainer.current_epoch} train_loss={figures['train_loss']:.6f}")
            print(f"test_accuracy={figures['test_accuracy']:.4f}", flush=True)


def main(args: argparse.Namespace) -> None:
    lightning.seed_everything(0)
    train = DataLoader("pipeline:train_set", args.batch_size, shuffle=True, epochs=args.epochs)
    test = DataLoader("pipeline:test_set", args.batch_size)
    processes = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        max_epochs=args.epochs,
        devices=processes,
        num_nodes=int(os.environ["WORLD_SIZE"]) // processes,
        callbacks=[Printed()],
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(DigitsModule(args.lr), train, test)
    trainer.save_checkpoint(Path(os.environ["SM_MODEL_DIR"]) / "model.ckpt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.003)
    main(parser.parse_args())
