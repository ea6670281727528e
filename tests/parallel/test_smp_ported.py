"""A GPT in the style of smp's own examples: the same losses and weights as with one partition."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from ranks import noted

pytest.importorskip("torch")


_SCRIPT = """
import math
from torch.nn import functional as F
import launcher.parallel.smp
import launcher.parallel.smp as smp
from launcher.parallel.smp.nn import FusedLayerNorm
from launcher.parallel.smp.nn.huggingface.gpt2 import (
    translate_hf_state_dict_to_smdistributed_gpt2,
    translate_state_dict_to_hf_gpt2,
)

PARTITIONS, MODE, FOLDER = {partitions}, {mode!r}, {folder!r}
WORDS, WIDTH, LENGTH, STEPS = 19, 16, 8, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = FusedLayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1))

    def forward(self, hidden):
        return hidden + self.mlp(self.norm(hidden))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList([Block() for _ in range(4)])
        self.ln_f = FusedLayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, input_ids, past=None, attention_mask=None, scale=1.0, labels=None, **rest):
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden = (self.wte(input_ids) + self.wpe(places)) * attention_mask.unsqueeze(-1)
        for block in self.h:
            hidden = block(hidden)
        logits = self.head(self.ln_f(hidden)) * scale
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {{"loss": loss, "logits": logits}}


def batches(seed):
    '''Samples on the first rank of a replica; placeholders of another shape on the others.'''
    if smp.pp_rank() == 0:
        generator = torch.Generator().manual_seed(seed + smp.dp_rank())
        ids = [torch.randint(0, WORDS, (8, LENGTH), generator=generator) for _ in range(STEPS)]
        smp.broadcast(len(ids), smp.PP_GROUP)
        return [(each, torch.ones(each.shape)) for each in ids]
    return [(torch.empty(8, 0), torch.empty(8, 0))] * smp.recv_from(0, smp.RankType.PP_RANK)


class Steps:
    '''Steps of a class, with and without its instance.'''

    scale = 0.5

    @smp.step
    def train(model, optimizer, input_ids, attention_mask, args):
        output = model(
            input_ids=input_ids, attention_mask=attention_mask, labels=input_ids,
            scale=args["scale"],
        )
        model.backward(output["loss"])
        return output

    @smp.step
    def varies(model, input_ids, attention_mask, numbers):
        model(input_ids, None, attention_mask, 0.5 + numbers[0].item(), input_ids)

    @smp.step
    def changes(model, input_ids, attention_mask, numbers):
        model(input_ids, attention_mask=attention_mask, labels=input_ids)

    @smp.step
    def test(self, model, input_ids, attention_mask):
        output = model(
            input_ids=input_ids, attention_mask=attention_mask, labels=input_ids, scale=self.scale
        )
        right = output["logits"][:, :-1].argmax(-1).eq(input_ids[:, 1:]).sum().item()
        return output["loss"].item(), right


steps = Steps()


def evaluate(model):
    model.eval()
    total, right = 0.0, 0
    with torch.no_grad():
        for input_ids, attention_mask in batches(seed=77):
            losses, rights = steps.test(model, input_ids, attention_mask)
            total, right = total + sum(losses) / len(losses), right + sum(rights)
    model.train()
    summed = torch.tensor(total)
    dist.all_reduce(summed, group=smp.get_dp_process_group())
    return summed.item() / smp.dp_size(), right


smp.init({{
    "ddp": True,
    "tensor_parallel_degree": 1,
    "pipeline_parallel_degree": PARTITIONS,
    "microbatches": 2,
    "active_microbatches": 4,
    "shard_optimizer_state": False,
    "prescaled_batch": True,
    "fp16": False,
    "bf16": False,
    "offload_activations": False,
    "delayed_parameter_initialization": True,
    "optimize": "speed",
    "placement_strategy": "cluster",
    "activation_loading_horizon": 4,
    "skip_tracing": False,
    "auto_partition": False,
    "default_partition": 0,
    "static_mode": False,
    "fast_mode": False,
    "sharded_data_parallel_degree": 1,
}})
torch.manual_seed(3)
with smp.model_creation(
    tensor_parallelism=smp.tp_size() > 1, dtype=torch.float32, fused_softmax=True
):
    net = Gpt()
model = smp.DistributedModel(net, trace_device="gpu", backward_passes_per_step=1)
layers = model.get_module().h
for number, block in enumerate(layers.children()):
    smp.set_partition(block, number * PARTITIONS // 4)
    smp.set_activation_checkpointing(block)
norms = {{
    id(each)
    for module in net.modules()
    if isinstance(module, FusedLayerNorm)
    for each in module.parameters()
}}
optimizer = torch.optim.Adam(
    [
        {{"params": [each for each in net.parameters() if id(each) not in norms]}},
        {{"params": [each for each in net.parameters() if id(each) in norms], "weight_decay": 0.0}},
    ],
    lr=0.02,
    weight_decay=0.1,
)
optimizer = smp.DistributedOptimizer(
    optimizer,
    static_loss_scale=None,
    dynamic_loss_scale=True,
    dynamic_loss_args={{"scale_window": 1000, "min_scale": 1, "delayed_shift": 2}},
)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)

first = 0
if MODE == "partial":
    content = smp.resume_from_checkpoint(FOLDER, tag=None, partial=True)
    schedule.load_state_dict(content["lr_scheduler"])
    first = content["total_steps"]
if MODE == "full":
    content = smp.resume_from_checkpoint(
        FOLDER, tag="full.pt", partial=False,
        translate_function=translate_hf_state_dict_to_smdistributed_gpt2,
    )
    assert content["total_steps"] == STEPS
losses, shapes = [], []
model.train()
for step, (input_ids, attention_mask) in enumerate(batches(seed=5)):
    if step < first:
        continue
    optimizer.zero_grad(set_to_none=True)
    output = steps.train(model, optimizer, input_ids, attention_mask, {{"scale": 0.5}})
    losses.append(output["loss"].reduce_mean().item())
    shapes.append(list(torch.cat(tuple(output["logits"].outputs), dim=0).shape))
    optimizer.step()
    schedule.step()
    if MODE == "train" and step == 1:
        smp.save_checkpoint(
            FOLDER, tag=f"total_steps{{step + 1}}", partial=True, model=model, optimizer=optimizer,
            user_content={{"total_steps": step + 1, "lr_scheduler": schedule.state_dict()}},
            num_kept_partial_checkpoints=5,
        )
tested = evaluate(model)
state = model.state_dict(gather_to_rank0=True)
if MODE == "train":
    smp.save_checkpoint(
        FOLDER, tag="full.pt", partial=False, model=model, user_content={{"total_steps": STEPS}}
    )
    alone = Gpt()
    alone.load_state_dict(translate_state_dict_to_hf_gpt2(state, max_seq_len=LENGTH))
if smp.rdp_rank() == 0:
    smp.save({{"model": model.local_state_dict()}}, f"{{FOLDER}}-part", partial=True, v3=False)
    part = smp.load(f"{{FOLDER}}-part")["model"]
    assert part["_smp_is_partial"]
    assert set(dict(model.local_named_parameters())) <= set(part)
refused = []
if PARTITIONS == 1:
    model.eval()
    for step in (steps.varies, steps.changes):
        try:
            step(model, *batches(seed=5)[0], torch.arange(8))
        except ParallelError as error:
            refused.append(str(error))
smp.barrier()
own = sorted({{name.split(".")[0] for name, _ in model.local_named_parameters()}})
note({{
    "losses": losses,
    "shapes": shapes,
    "tested": tested,
    "own": own,
    "refused": refused,
    "sums": {{name: each.double().sum().item() for name, each in state.items()}},
    "version": launcher.parallel.smp.__version__,
}})
"""


def _trained(folder: Path, partitions: int, mode: str, checkpoints: Path) -> list[Any]:
    script = _SCRIPT.format(partitions=partitions, mode=mode, folder=str(checkpoints))
    return noted(folder / f"{mode}-{partitions}", script, ranks=partitions)


@pytest.mark.long
def test_a_script_like_those_of_smp_ports_by_its_import(tmp_path: Path) -> None:
    (alone,) = _trained(tmp_path, 1, "train", tmp_path / "alone")
    varies, changes = alone["refused"]
    assert "varies passes scale to the model as 0.5 for one microbatch and [4.5] for" in varies
    assert "scale is 1.0 in this batch, but 0.5 in the pipeline's example" in changes
    first, second = _trained(tmp_path, 2, "train", tmp_path / "saved")
    assert first["losses"] == second["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    assert first["shapes"] == [[8, 8, 19]] * 4
    assert first["tested"] == second["tested"] == pytest.approx(alone["tested"], rel=1e-5)
    assert first["sums"] == pytest.approx(alone["sums"], rel=1e-4, abs=1e-4)
    # What is on no partition follows the layers whose data it needs.
    assert first["own"] == ["h", "wpe", "wte"]
    assert {"h", "ln_f"} <= set(second["own"]) <= {"h", "ln_f", "head"}

    resumed = _trained(tmp_path, 2, "partial", tmp_path / "saved")
    assert resumed[0]["losses"] == first["losses"][2:]
    assert resumed[0]["sums"] == first["sums"]

    continued = _trained(tmp_path, 2, "full", tmp_path / "saved")
    assert continued[1]["losses"][0] < first["losses"][0]


_IN_FP16 = """
import launcher.parallel.smp as smp

smp.init({"partitions": 2, "microbatches": 2, "fp16": True}, starts=["2"])
torch.manual_seed(3)
with smp.model_creation(dtype=torch.float16):
    net = torch.nn.Sequential(*(torch.nn.Linear(6, 6) for _ in range(4)))
words = {"parameters": str(net[0].weight.dtype)}
try:
    smp.DistributedOptimizer(
        None, dynamic_loss_scale=True, dynamic_loss_args={"scale_windows": 1000}
    )
except ParallelError as error:
    words["unknown"] = str(error)
model = smp.DistributedModel(net)

def wrapped(**scaling):
    return smp.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), **scaling)

static = wrapped(static_loss_scale=128.0)
unscaled = wrapped()
again = wrapped(dynamic_loss_scale=True)
optimizer = wrapped(
    static_loss_scale=None,
    dynamic_loss_scale=True,
    dynamic_loss_args={"init_scale": 2.0**40, "scale_factor": 16.0, "min_scale": 1},
)

@smp.step
def train_step(x):
    output = model(x)
    loss = output.float().square().mean()
    model.backward(loss)
    return loss, output

dtypes, scales, overflows, norms, losses = set(), [], [], [], []
x = torch.ones(4, 6)
for step in range(8):
    scales.append(optimizer.loss_scale)
    before = [each.detach().clone() for each in model.local_parameters()] if step else []
    optimizer.zero_grad()
    loss, output = train_step(x)
    dtypes.add(str(output[0].dtype))
    norms.append(optimizer.clip_master_grads(1.0).item())
    optimizer.step()
    overflows.append(optimizer.overflow)
    kept = all(map(torch.equal, before, model.local_parameters()))
    assert not step or kept == optimizer.overflow
    losses.append(loss.reduce_mean().item())
state = optimizer.local_state_dict()
again.load_state_dict(state)
words["kept"] = again.loss_scale == optimizer.loss_scale
smp.smp_session.session().optimizers[:] = [static]
train_step(x)
words["static norm"] = static.clip_master_grads(1.0).item()
static.step()
words["scale"] = [static.loss_scale, unscaled.loss_scale, str(static.overflow)]
note({**words, "dtypes": sorted(dtypes), "scales": scales, "overflows": overflows,
      "norms": norms, "losses": losses})
"""


@pytest.mark.long
def test_fp16_of_smps_dictionary_scales_losses_and_skips_what_overflows(tmp_path: Path) -> None:
    first, second = noted(tmp_path, _IN_FP16)
    assert first == second
    assert first["parameters"] == "torch.float32"  # they are what smp's optimizer keeps a copy of
    assert first["dtypes"] == ["torch.float16"]
    assert "does not support scale_windows in dynamic_loss_args" in first["unknown"]
    overflown = first["overflows"].index(False)
    assert overflown > 0
    assert first["scales"][: overflown + 1] == [2.0 ** (40 - 4 * n) for n in range(overflown + 1)]
    assert not any(first["overflows"][overflown:])
    assert first["losses"][-1] < first["losses"][overflown]
    assert max(first["norms"][overflown:]) < 10  # of the gradients without the scale
    assert first["kept"]
    assert first["static norm"] > 0
    assert first["scale"] == [128.0, 1.0, "False"]


@pytest.mark.parametrize("family", ["bert", "gpt2", "gptj", "gptneo", "gptneox", "roberta"])
def test_states_have_hugging_faces_names_in_any_case(family: str) -> None:
    module = importlib.import_module(f"launcher.parallel.smp.nn.huggingface.{family}")
    state = {"transformer.h.0.attn.c_attn.weight": 1}
    back = getattr(module, f"translate_state_dict_to_hf_{family}")
    there = getattr(module, f"translate_hf_state_dict_to_smdistributed_{family}")
    assert back(there(state), max_seq_len=1024) == state
