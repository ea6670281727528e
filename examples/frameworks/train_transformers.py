"""Train on handwritten digits with Hugging Face's Trainer, which is given Launcher's loaders."""

from __future__ import annotations

import argparse
import os

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from launcher.data import DataLoader


class DigitsModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, pixel_values, labels) -> dict[str, torch.Tensor]:
        logits = self.net(pixel_values)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


class DigitsTrainer(Trainer):
    def __init__(self, *arguments, train, test, **options) -> None:
        self.train_loader, self.test_loader = train, test
        datasets = {"train_dataset": train.dataset, "eval_dataset": test.dataset}
        super().__init__(*arguments, **datasets, **options)

    def get_train_dataloader(self):
        return self.train_loader

    def get_eval_dataloader(self, eval_dataset=None):
        return self.test_loader


class PrintedFigures(TrainerCallback):
    """Print an epoch's figures, which the job's metric definitions look for."""

    def on_log(self, args, state, control, logs, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"epoch={round(state.epoch) - 1} train_loss={float(logs['loss']):.6f}")

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        if state.is_world_process_zero:
            print(f"test_accuracy={metrics['eval_accuracy']:.4f}", flush=True)


def accuracy(answers) -> dict[str, float]:
    return {"accuracy": (answers.predictions.argmax(axis=-1) == answers.label_ids).mean().item()}


def main(args: argparse.Namespace) -> None:
    set_seed(0)
    arguments = TrainingArguments(
        output_dir="/tmp/frameworks",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.batch_size,
        learning_rate=args.lr,
        logging_strategy="epoch",
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = DigitsTrainer(
        DigitsModel(),
        arguments,
        train=DataLoader("pipeline:train_set", args.batch_size, shuffle=True, epochs=args.epochs),
        test=DataLoader("pipeline:test_set", args.batch_size),
        compute_metrics=accuracy,
        callbacks=[PrintedFigures()],
    )
    trainer.train()
    trainer.save_model(os.environ["SM_MODEL_DIR"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.003)
    main(parser.parse_args())
