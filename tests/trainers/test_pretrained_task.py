"""A task starts from the weights of a folder, and ends as one that from_pretrained reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tasks import run

pytest.importorskip("torch")

#: As docs/trainers.md has it, with data, and two batches of which nothing is random.
_TASK = """
import torch
from torch.nn.functional import cross_entropy
from launcher.trainers import Task

def data():
    return [(torch.arange(n, n + 8) % 50, torch.arange(n + 1, n + 9) % 50) for n in range(16)]

{imports}
def make(folder, epochs=2):
    return Task(
        model={model},
        weights=folder,
        train_data="task:data",
        loss=lambda output, labels: cross_entropy({logits}.flatten(0, 1), labels.flatten()),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        batch_size=8,
        epochs=epochs,
    )
"""
_TRANSFORMERS = _TASK.format(
    imports="from transformers import AutoConfig, AutoModelForCausalLM\n",
    model="lambda: AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))",
    logits="output.logits",
)
_OWN = _TASK.format(
    imports="""
import json, pathlib, sys
sys.path.insert(0, HERE)
from llama_shaped import LlamaShaped, Sizes
sizes = Sizes(tied=True)
""".replace("HERE", repr(str(Path(__file__).parents[1] / "parallel"))),
    model="lambda: LlamaShaped(sizes)",
    logits="output",
)
_WAYS = {
    "two stages": (2, {"partitions": 2, "microbatches": 2, "starts": ["model.layers.1"]}),
    "two replicas": (2, {}),
    "one process": (1, {}),
}


@pytest.mark.long
@pytest.mark.parametrize("way", ["two stages", "one process"])
def test_a_task_reads_its_weights_and_writes_such_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    import torch

    from launcher.parallel.pretrained import PretrainedWeights

    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "parallel"))
    from llama_shaped import LlamaShaped, Sizes, write_checkpoint

    sizes = Sizes(tied=True)
    write_checkpoint(tmp_path / "given", sizes, shard=20_000, seed=1)
    model = LlamaShaped(sizes)
    PretrainedWeights(tmp_path / "given").load(model, model, torch.device("cpu"))
    expected = trained(model, lambda output: output)
    ranks, parallel = _WAYS[way]
    outcome = run(
        tmp_path, ranks=ranks, task=_OWN, parallel=parallel,
        hyperparameters={"folder": str(tmp_path / "given")},
    )  # fmt: skip
    assert outcome.code == 0, outcome.output
    names = sorted(each.name for each in (outcome.folder / "model").iterdir())
    assert names == ["config.json", "model.safetensors"]
    found = LlamaShaped(sizes)
    PretrainedWeights(outcome.folder / "model").load(found, found, torch.device("cpu"))
    for name, each in found.named_parameters():
        assert torch.allclose(each, expected[name], rtol=1e-4, atol=1e-6), name


@pytest.mark.slow
@pytest.mark.library("hugging-face")
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("way", _WAYS)
def test_from_pretrained_reads_what_a_task_made_of_a_transformers_model(
    tmp_path: Path, tied: bool, way: str
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    given = AutoModelForCausalLM.from_config(config)
    given.save_pretrained(tmp_path / "given", max_shard_size="8KB")
    assert len(list((tmp_path / "given").glob("*.safetensors"))) > 1
    ranks, parallel = _WAYS[way]
    outcome = run(
        tmp_path, ranks=ranks, task=_TRANSFORMERS, parallel=parallel,
        hyperparameters={"folder": str(tmp_path / "given")},
    )  # fmt: skip
    assert outcome.code == 0, outcome.output
    expected = trained(given, lambda output: output.logits)
    found, report = AutoModelForCausalLM.from_pretrained(
        outcome.folder / "model", output_loading_info=True
    )
    assert not any(report.values()), report
    assert (found.lm_head.weight is found.model.embed_tokens.weight) == tied
    for name, each in found.named_parameters():
        assert torch.allclose(each, expected[name], rtol=1e-4, atol=1e-6), name


def trained(model: Any, logits: Any) -> dict[str, Any]:
    """The parameters after two epochs in a plain loop, with the order of the task's samples."""
    import torch

    from launcher.data import DataLoader

    data = [(torch.arange(n, n + 8) % 50, torch.arange(n + 1, n + 9) % 50) for n in range(16)]
    loader = DataLoader(data, 8, shuffle=True, seed=0, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for _ in range(2):
        for ids, labels in loader:
            optimizer.zero_grad()
            found = logits(model(ids)).flatten(0, 1)
            torch.nn.functional.cross_entropy(found, labels.flatten()).backward()
            optimizer.step()
    return dict(model.named_parameters())
