"""Hugging Face's Trainer reads the epochs that it counts, and resumes within one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.data import DataLoader

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

transformers = pytest.importorskip("transformers", reason="needs the extra 'frameworks'")
pytest.importorskip("accelerate", reason="needs the extra 'frameworks'")

MakeLoader = Callable[..., DataLoader]
BatchesOf = Callable[..., list[list[int]]]
Note = Callable[[dict[str, Any]], list[int]]


def make_model(note: Note) -> Any:
    """Make a model that notes the batches it is trained on."""
    import torch

    class Witness(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)
            self.trained: list[list[int]] = []

        def forward(self, x: Any, labels: Any, index: Any) -> dict[str, Any]:
            if self.training:
                self.trained.append(note({"x": x, "index": index}))
            logits = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    return Witness()


def make_trainer(
    model: Any,
    train: DataLoader,
    folder: Path,
    *,
    test: DataLoader | None = None,
    callbacks: Any = (),
    **options: Any,
) -> Any:
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "save_strategy": "no"}
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_eval_batch_size=8, **{**quiet, **options}
    )
    trainer = transformers.Trainer(
        model,
        arguments,
        train_dataset=train.dataset,
        eval_dataset=test and test.dataset,
        compute_metrics=lambda answers: {"seen": len(answers.label_ids)},
        callbacks=list(callbacks),
    )
    trainer.get_train_dataloader = lambda: train
    trainer.get_eval_dataloader = lambda dataset=None: test
    return trainer


@pytest.mark.parametrize("accumulated", [1, 2])
def test_epochs_count_from_0(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note, tmp_path: Path, accumulated: int
) -> None:
    model = make_model(note)
    test = make_loader("odd_set", shuffle=False)
    trainer = make_trainer(
        model,
        make_loader(),
        tmp_path,
        test=test,
        num_train_epochs=3,
        gradient_accumulation_steps=accumulated,
        eval_strategy="epoch",
        eval_on_start=True,
    )
    trainer.train()
    assert model.trained == batches_of(0, 1, 2)
    assert trainer.state.epoch == 3
    assert trainer.evaluate()["eval_seen"] == 51


class LoaderState(transformers.TrainerCallback):
    """The recipe of docs/data-loader.md: the loader's state beside each checkpoint."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (folder / "loader.json").write_text(json.dumps(self.loader.state_dict()))


def test_a_resumed_run_reads_what_is_left(
    make_loader: MakeLoader, batches_of: BatchesOf, note: Note, tmp_path: Path
) -> None:
    before, loader = make_model(note), make_loader()
    keeping = {"save_strategy": "steps", "save_steps": 1, "num_train_epochs": 3}
    state = LoaderState(loader)
    make_trainer(before, loader, tmp_path, callbacks=[state], **keeping).train()
    assert before.trained == batches_of(0, 1, 2)
    for steps in (7, 10):
        checkpoint = tmp_path / f"checkpoint-{steps}"
        after, resumed = make_model(note), make_loader(name=f"resumed after {steps}")
        resumed.load_state_dict(json.loads((checkpoint / "loader.json").read_text()))
        trainer = make_trainer(after, resumed, tmp_path, num_train_epochs=3, ignore_data_skip=True)
        trainer.train(resume_from_checkpoint=str(checkpoint))
        assert after.trained == before.trained[steps:]
        assert trainer.state.global_step == 21


def test_skipping_batches_names_the_way_to_resume(
    make_loader: MakeLoader, note: Note, tmp_path: Path
) -> None:
    model = make_model(note)
    keeping = {"save_strategy": "steps", "save_steps": 5, "num_train_epochs": 1}
    make_trainer(model, make_loader(), tmp_path, **keeping).train()
    trainer = make_trainer(model, make_loader(), tmp_path, num_train_epochs=1)
    with pytest.raises(Exception, match="ignore_data_skip=True"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
