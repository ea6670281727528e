"""Weights are read stage by stage, by the ranks that need them, and written for from_pretrained."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from llama_shaped import INDEX, LlamaShaped, Sizes, write_checkpoint
from ranks import noted
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel import cut_by_shape
from launcher.parallel.pretrained import (
    PretrainedWeights,
    stored_tensors,
    without_weights,
    write_pretrained,
    write_tensors,
)

SIZES = Sizes()
HERE = Path(__file__).parent
_CPU = torch.device("cpu")


@pytest.fixture(params=[False, True], ids=["untied", "tied"])
def checkpoint(tmp_path, request):
    sizes = replace(SIZES, tied=request.param)
    write_checkpoint(tmp_path / "llama", sizes, shard=20_000, seed=1)
    return tmp_path / "llama", sizes


def loaded_whole(folder, sizes):
    """The model as safetensors' own reader loads it."""
    from safetensors.torch import load_file

    model = LlamaShaped(sizes)
    state = {}
    for file in sorted(folder.glob("*.safetensors")):
        state |= load_file(file)
    model.load_state_dict(state, strict=not sizes.tied)
    return model


_PIPELINE = """
from torch.nn.functional import cross_entropy
from launcher.parallel.pretrained import PretrainedWeights, without_weights
from llama_shaped import LlamaShaped, Sizes

sizes = Sizes(**json.loads(os.environ["SIZES"]))
world = parallel.init(pipeline=2, global_batch=4, microbatches=2)
with without_weights():
    model = LlamaShaped(sizes)
weights = PretrainedWeights(os.environ["FOLDER"])
ids = torch.arange(32).view(4, 8)
pipeline = Pipeline(
    model, world, starts=["model.layers.2"], example={"input_ids": ids[:2]}, weights=weights,
    loss=lambda logits, labels: cross_entropy(logits.flatten(0, 1), labels.flatten()),
)
optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    losses.append(float(pipeline.step(ids, target=ids + 1)))
    optimizer.step()
own = sum(each.nbytes for each in pipeline.parameters())
note({"read": weights.bytes_read, "own": own, "losses": losses})
"""


@pytest.mark.long
def test_each_rank_reads_its_own_stage_and_learns_what_one_process_does(
    tmp_path, checkpoint
) -> None:
    folder, sizes = checkpoint
    variables = {"FOLDER": str(folder), "SIZES": json.dumps(vars(sizes))}
    notes = noted(tmp_path, _PIPELINE, **variables)
    model = loaded_whole(folder, sizes)
    ids = torch.arange(32).view(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten() + 1)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    total = sum(each.nbytes for each in model.parameters())
    for note in notes:
        assert note["read"] == note["own"] < 0.7 * total
        assert note["losses"] == pytest.approx(losses, rel=1e-4)
    read = sum(note["read"] for note in notes)
    assert read == total + sizes.tied * model.lm_head.weight.nbytes


def test_a_whole_model_is_read_into_parameters_of_another_dtype(checkpoint) -> None:
    folder, sizes = checkpoint
    whole = loaded_whole(folder, sizes)
    with without_weights():
        model = LlamaShaped(replace(sizes, dtype="bfloat16"))
    assert all(each.is_meta for each in model.parameters())
    assert not any(each.is_meta for each in model.buffers())
    weights = PretrainedWeights(folder)
    weights.load(model, model, _CPU)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == sizes.tied
    for name, each in model.named_parameters():
        assert torch.equal(each, whole.get_parameter(name).to(torch.bfloat16))
    with_weights = LlamaShaped(sizes)
    weights.load(with_weights, with_weights, _CPU)
    assert torch.equal(with_weights.model.norm.weight, whole.model.norm.weight)


def damaged(folder: Path, case: str) -> None:
    index = folder / INDEX
    raw = json.loads(index.read_text())
    first = folder / sorted(set(raw["weight_map"].values()))[0]
    if case == "no files":
        index.unlink()
    elif case == "no shard":
        first.unlink()
    elif case == "cut off":
        first.write_bytes(first.read_bytes()[:-1])
    elif case == "no header":
        first.write_bytes(b"\xff" * 40)
    elif case == "text":
        first.write_bytes((7).to_bytes(8, "little") + b"no json")
    elif case == "index":
        index.write_text("[]")
    elif case == "elsewhere":
        raw["weight_map"]["model.norm.weight"] = "../../model.safetensors"
        index.write_text(json.dumps(raw))
    elif case == "wrong place":
        raw["weight_map"]["model.norm.weight"] = first.name
        index.write_text(json.dumps(raw))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("no files", "llama has neither model.safetensors nor model.safetensors.index.json"),
        ("no shard", r"model-00001-of-\d+.safetensors cannot be read: No such file"),
        ("cut off", "model-00001.* is not a complete safetensors file: copy it again"),
        ("no header", "model-00001.* is not a complete safetensors file"),
        ("text", "model-00001.* is not a safetensors file: JSONDecodeError"),
        ("index", "index.json is not an index of safetensors files"),
        ("elsewhere", "index.json names files in other folders"),
        ("wrong place", "says that model.norm.weight is in model-00001.*, where it is not"),
    ],
)
def test_files_that_are_wrong_are_named(tmp_path, case, said) -> None:
    write_checkpoint(tmp_path / "llama", SIZES, shard=20_000, seed=1)
    damaged(tmp_path / "llama", case)
    with pytest.raises(ParallelError, match=said):
        PretrainedWeights(tmp_path / "llama")


def test_other_names_and_shapes_are_all_named(tmp_path) -> None:
    write_checkpoint(tmp_path, replace(SIZES, vocab=32, layers=6), shard=10**9, seed=1)
    with without_weights():
        model = LlamaShaped(SIZES)
        model.more = torch.nn.Linear(2, 2)
    with pytest.raises(ParallelError) as caught:
        PretrainedWeights(tmp_path).check(model)
    said = str(caught.value)
    assert "missing: more.weight, more.bias;" in said
    assert "unexpected: model.layers.4.self_attn.q_proj.weight" in said
    assert "and 13 more" in said
    assert "model.embed_tokens.weight ([32, 16] in the file, [64, 16] in the model)" in said
    assert "name them in unused=" in said


def test_names_that_a_model_does_not_need_are_left_out(tmp_path) -> None:
    write_checkpoint(tmp_path, replace(SIZES, layers=6), shard=10**9, seed=1)
    with without_weights():
        model = LlamaShaped(SIZES)
    PretrainedWeights(tmp_path, unused=["model.layers.[45].*"]).check(model)


def test_parameters_keep_their_attributes(tmp_path) -> None:
    write_tensors(torch.nn.Linear(2, 2).state_dict(), tmp_path / "model.safetensors")
    with without_weights():
        model = torch.nn.Linear(2, 2)
        model.bias._no_weight_decay = True
    PretrainedWeights(tmp_path).load(model, model, _CPU)
    assert not model.bias.is_meta
    assert model.bias._no_weight_decay


def test_a_buffer_without_values_is_refused(tmp_path) -> None:
    write_checkpoint(tmp_path, SIZES, shard=10**9, seed=1)
    with torch.device("meta"):
        model = LlamaShaped(SIZES)
    with pytest.raises(ParallelError, match=r"buffer model.rotary_emb.inv_freq has no values"):
        PretrainedWeights(tmp_path).load(model, model, _CPU)


def test_what_is_written_is_read_by_safetensors_and_back(tmp_path) -> None:
    from safetensors import safe_open

    tensors = {
        "a": torch.randn(3, 5), "b": torch.tensor(7), "c": torch.zeros(0, 2),
        "d": torch.randn(4, 6).t().bfloat16(), "e": torch.tensor([True, False]),
    }  # fmt: skip
    write_tensors(tensors, tmp_path / "x.safetensors")
    stored = stored_tensors(tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", framework="pt") as opened:
        assert opened.metadata() == {"format": "pt"}
        for name, tensor in tensors.items():
            assert torch.equal(opened.get_tensor(name), tensor)
            assert torch.equal(stored[name].read(), tensor)
    with pytest.raises(ParallelError, match=r"a is torch\.complex64"):
        write_tensors({"a": torch.zeros(1, dtype=torch.complex64)}, tmp_path / "y.safetensors")


def test_an_export_has_the_other_files_and_no_tied_names(tmp_path, checkpoint) -> None:
    folder, sizes = checkpoint
    (folder / "tokenizer.json").write_text("{}")
    model = loaded_whole(folder, sizes).bfloat16()
    tied = {"lm_head.weight": "model.embed_tokens.weight"} if sizes.tied else {}
    write_pretrained(model.state_dict(), tmp_path / "out", like=folder, tied=tied)
    names = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert names == ["config.json", "model.safetensors", "tokenizer.json"]
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    again = PretrainedWeights(tmp_path / "out")
    with without_weights():
        read = LlamaShaped(replace(sizes, dtype="bfloat16"))
    again.load(read, read, _CPU)
    assert torch.equal(read.lm_head.weight, model.lm_head.weight)
    with pytest.raises(ParallelError, match=r"has no config\.json"):
        write_pretrained({}, tmp_path / "more", like=tmp_path)


_STAGE = """
import json, re, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])

def peak():  # getrusage's may be that of the process that started this one
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) * 1024

import torch
from llama_shaped import LlamaShaped, Sizes
from launcher.parallel.pretrained import PretrainedWeights, without_weights
from launcher.parallel.cutting.shapes import cut_by_shape

folder, layers, number = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
config = json.loads((folder / "config.json").read_text())
with without_weights():
    model = LlamaShaped(Sizes(**config))
starts = [f"model.layers.{layers // 4 * each}" for each in (1, 2, 3)]
stages = cut_by_shape(model, starts, {"input_ids": torch.zeros(1, 16, dtype=torch.int64)})
weights = PretrainedWeights(folder)
before = peak()
stage = stages[number].module
weights.load(model, stage, torch.device("cpu"))
print(json.dumps({
    "before": before, "peak": peak(),
    "own": sum(each.nbytes for each in stage.parameters()), "largest": weights.largest,
    "read": weights.bytes_read,
}))
"""


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(
            Sizes(layers=8, width=512, hidden=1408, vocab=8000, heads=8, dtype="bfloat16"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            Sizes(layers=32, width=4096, hidden=11008, vocab=32000, heads=32, dtype="bfloat16"),
            marks=[pytest.mark.slow, pytest.mark.timeout(1800)],
        ),
    ],
    ids=["small", "14 GB"],
)
def test_no_stage_needs_more_memory_than_its_own_weights(tmp_path, sizes) -> None:
    """Four stages, one after the other.

    What Python and torch need before is counted only in the larger model, beside which it is small.
    """
    total = write_checkpoint(tmp_path, sizes, shard=5 * 10**9)
    read = 0
    for number in range(4):
        done = subprocess.run(
            [sys.executable, "-c", _STAGE, str(HERE), str(tmp_path), str(sizes.layers),
             str(number)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        print(found)
        assert found["read"] == found["own"] < 0.4 * total
        before = 0 if total > 10**10 else found["before"]
        assert found["peak"] - before <= 1.1 * (found["own"] + found["largest"])
        read += found["read"]
    assert read == total


class _Counting(nn.Module):
    """A layer that counts calls in an object it shares with others."""

    def __init__(self, shared: SimpleNamespace) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.shared = shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shared.calls += 1
        return self.linear(x) * self.shared.calls


class _Cached(_Counting):
    """A layer that makes what it shares with others in the first call of all."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.shared.calls:
            self.shared.calls = 2
        return self.linear(x) * self.shared.calls


class _Borrowing(_Counting):
    """A layer that uses the first one's weight by a reference that torch does not know."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shared.first = getattr(self.shared, "first", self.linear)
        return self.linear(x) @ self.shared.first.weight


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (_Counting, "stage 0 changes 'calls', which stage 1 reads"),
        (_Borrowing, "stage 1 trains 0.linear.weight by a reference that torch does not know"),
        (_Cached, None),
    ],
)
def test_what_stages_share_is_found_without_weights(
    layer: type[_Counting], said: str | None
) -> None:
    shared = SimpleNamespace(calls=0)
    with without_weights():
        model = nn.Sequential(*(layer(shared) for _ in range(4)))
    refused = pytest.raises(ParallelError, match=said) if said else contextlib.nullcontext()
    with refused:
        stages = cut_by_shape(model, ["2"], {"input": torch.ones(2, 8)})
        assert len(stages) == 2
    assert shared.calls == 0
