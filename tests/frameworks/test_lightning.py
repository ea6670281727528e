"""Lightning reads the epochs that it counts: sanity checks, reloads, limits and resumed runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.data import DataLoader

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
Fit = Callable[..., Any]


@pytest.fixture
def lightning() -> Any:
    """Not imported by who only collects this file: that takes seconds."""
    return pytest.importorskip("lightning", reason="needs the extra 'frameworks'")


@pytest.fixture
def fit(lightning: Any, note: Callable[[dict[str, Any]], list[int]]) -> Fit:
    """Train a model that learns nothing; return it with the batches of its loops."""
    import torch

    class Witness(lightning.LightningModule):  # type: ignore[misc,name-defined] # not always there
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(4))
            self.trained: list[list[int]] = []
            self.checked: list[list[int]] = []
            self.validated: list[list[int]] = []

        def training_step(self, batch: dict[str, Any], _: int) -> Any:
            self.trained.append(note(batch))
            return (batch["x"] @ self.weight).sum()

        def validation_step(self, batch: dict[str, Any], _: int) -> None:
            seen = self.checked if self.trainer.sanity_checking else self.validated
            seen.append(note(batch))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(*data: Any, ckpt_path: Path | None = None, **options: Any) -> Witness:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        few = {"accelerator": "cpu", "devices": 1, "enable_checkpointing": False}
        model = Witness()
        lightning.Trainer(**{**quiet, **few, **options}).fit(model, *data, ckpt_path=ckpt_path)
        return model

    return fit


def test_a_sanity_check_loses_no_epoch(
    fit: Fit, make_loader: MakeLoader, batches_of: BatchesOf
) -> None:
    loaders = make_loader(), make_loader("test_set")
    model = fit(*loaders, max_epochs=3, num_sanity_val_steps=2)
    assert model.trained == batches_of(0, 1, 2)
    assert model.checked == batches_of(0, dataset="test_set")[:2]
    assert model.validated == batches_of(0, 1, 2, dataset="test_set")


def test_loaders_made_anew_for_each_epoch_read_the_next_one(
    lightning: Any, fit: Fit, make_loader: MakeLoader, batches_of: BatchesOf
) -> None:
    class Reloading(lightning.LightningDataModule):  # type: ignore[misc,name-defined] # likewise
        def train_dataloader(self) -> DataLoader:
            return make_loader()

        def val_dataloader(self) -> DataLoader:
            return make_loader("test_set")

    model = fit(Reloading(), max_epochs=3, reload_dataloaders_every_n_epochs=1)
    assert model.trained == batches_of(0, 1, 2)
    assert model.validated == batches_of(0, 1, 2, dataset="test_set")


def test_an_epoch_that_is_limited_is_followed_by_the_next(
    fit: Fit, make_loader: MakeLoader, batches_of: BatchesOf
) -> None:
    model = fit(make_loader(), max_epochs=2, limit_train_batches=3)
    assert model.trained == batches_of(0)[:3] + batches_of(1)[:3]


def test_a_resumed_run_reads_what_is_left(
    lightning: Any, fit: Fit, make_loader: MakeLoader, batches_of: BatchesOf, tmp_path: Path
) -> None:
    """The checkpoint of Lightning holds the loader's resume point."""
    keeping = lightning.pytorch.callbacks.ModelCheckpoint(
        tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1
    )
    before = fit(make_loader(), max_epochs=3, callbacks=[keeping], enable_checkpointing=True)
    assert before.trained == batches_of(0, 1, 2)
    for steps in (7, 10, 14):
        after = fit(make_loader(), max_epochs=3, ckpt_path=tmp_path / f"step={steps}.ckpt")
        assert after.trained == before.trained[steps:]
