"""Lightning reads the epochs that it counts: sanity checks, reloads, limits and resumed runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.data import DataLoader

lightning = pytest.importorskip("lightning", reason="needs the extra 'frameworks'")

#: Lightning's own: it reads torch's old type of trees, and advises on the loop that a test needs.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:another loader of:UserWarning"
    ),  # they read a stream again, to compare
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
]

MakeLoader = Callable[..., DataLoader]
BatchesOf = Callable[..., list[list[int]]]
Note = Callable[[dict[str, Any]], list[int]]


class Witness(lightning.LightningModule):
    """Learns nothing; notes the batches of its loops."""

    def __init__(self, note: Note) -> None:
        super().__init__()
        import torch

        self.weight = torch.nn.Parameter(torch.zeros(4))
        self.note = note
        self.trained: list[list[int]] = []
        self.checked: list[list[int]] = []
        self.validated: list[list[int]] = []

    def training_step(self, batch: dict[str, Any], _: int) -> Any:
        self.trained.append(self.note(batch))
        return (batch["x"] @ self.weight).sum()

    def validation_step(self, batch: dict[str, Any], _: int) -> None:
        seen = self.checked if self.trainer.sanity_checking else self.validated
        seen.append(self.note(batch))

    def configure_optimizers(self) -> Any:
        import torch

        return torch.optim.SGD(self.parameters(), lr=0.1)


def make_trainer(**options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    options = {"accelerator": "cpu", "devices": 1, "enable_checkpointing": False, **options}
    return lightning.Trainer(**quiet, **options)


def test_a_sanity_check_loses_no_epoch(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note
) -> None:
    model = Witness(note)
    make_trainer(max_epochs=3, num_sanity_val_steps=2).fit(
        model, make_loader(), make_loader("test_set")
    )
    assert model.trained == batches_of(0, 1, 2)
    assert model.checked == batches_of(0, dataset="test_set")[:2]
    assert model.validated == batches_of(0, 1, 2, dataset="test_set")


def test_loaders_made_anew_for_each_epoch_read_the_next_one(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note
) -> None:
    class Reloading(lightning.LightningDataModule):
        def train_dataloader(self) -> DataLoader:
            return make_loader()

        def val_dataloader(self) -> DataLoader:
            return make_loader("test_set")

    model = Witness(note)
    trainer = make_trainer(max_epochs=3, reload_dataloaders_every_n_epochs=1)
    trainer.fit(model, datamodule=Reloading())
    assert model.trained == batches_of(0, 1, 2)
    assert model.validated == batches_of(0, 1, 2, dataset="test_set")


def test_an_epoch_that_is_limited_is_followed_by_the_next(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note
) -> None:
    model = Witness(note)
    make_trainer(max_epochs=2, limit_train_batches=3).fit(model, make_loader())
    assert model.trained == batches_of(0)[:3] + batches_of(1)[:3]


@pytest.mark.parametrize("steps", [7, 10, 14])
def test_a_resumed_run_reads_what_is_left(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note, tmp_path: Path, steps: int
) -> None:
    """The checkpoint of Lightning holds the loader's resume point."""
    before, after = Witness(note), Witness(note)
    keeping = lightning.pytorch.callbacks.ModelCheckpoint(
        tmp_path, filename="{step}", every_n_train_steps=steps, save_top_k=-1
    )
    make_trainer(max_epochs=3, callbacks=[keeping], enable_checkpointing=True).fit(
        before, make_loader()
    )
    saved = tmp_path / f"step={steps}.ckpt"
    make_trainer(max_epochs=3).fit(after, make_loader(), ckpt_path=saved)
    assert before.trained == batches_of(0, 1, 2)
    assert after.trained == before.trained[steps:]
