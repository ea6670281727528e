"""Scripts in AWS's style: the model's contexts, recomputation, hooks, checkpoints and groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ranks import noted

pytest.importorskip("torch")

_TESTS = Path(__file__).parent
_SCRIPT = """
import launcher.parallel.smp as smp

PARTITIONS, MODE, FOLDER = {partitions}, {mode!r}, pathlib.Path({folder!r})
smp.init({{"partitions": PARTITIONS, "microbatches": 2}}, starts=["blocks.2"][: PARTITIONS - 1])
torch.manual_seed(3)
with smp.model_creation(
    tensor_parallelism=smp.tp_size() > 1, dtype=torch.float64
), smp.delay_param_initialization(enabled=True):
    net = ARCHITECTURES["dropout"].make()
default = torch.get_default_dtype()
model = smp.DistributedModel(net, trace_device="gpu")
partitioned = []
model.register_post_partition_hook(
    lambda model, optimizer: partitioned.append([model.partitioned, optimizer is not None])
)
model.register_post_partition_hook(lambda model, optimizer: partitioned.append("removed")).remove()
for each in model.get_module().blocks.children():
    smp.set_activation_checkpointing(each)
optimizer = smp.DistributedOptimizer(
    torch.optim.AdamW(net.parameters(), lr=0.05),
    static_loss_scale=None,
    dynamic_loss_scale=True,
    dynamic_loss_args={{"scale_window": 1000, "min_scale": 1, "delayed_shift": 2}},
)

@smp.step
def train_step(model, ids):
    assert not smp.is_tracing()
    loss = model(ids=ids).square().mean()
    model.backward(loss)
    return {{"loss": loss, "value": loss.item(), "samples": len(ids), "name": "train"}}

def train(step):
    ids = torch.randint(0, 19, (8, 9), generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    found = train_step(model, ids=ids)
    optimizer.step()
    assert found["value"] == [each.item() for each in found["loss"]]
    assert (found["samples"], found["name"]) == ([4, 4], "train")
    return found["value"]

words = {{}}
def refused(name, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ParallelError as error:
        words[name] = str(error)

refused("nothing", smp.resume_from_checkpoint, FOLDER / "absent")
refused("no tag", smp.resume_from_checkpoint, FOLDER, partial=False)
refused("strange", smp.set_activation_checkpointing, torch.nn.Linear(1, 1))
refused("random", smp.set_activation_checkpointing, net.blocks, preserve_rng_state=False)
refused("tensor", smp.model_creation(tensor_parallelism=True).__enter__)
refused("tag", smp.save_checkpoint, FOLDER, tag="a/b", model=model)
refused("tags", smp.save_checkpoint, FOLDER, tag=f"rank{{smp.rank()}}", model=model)
refused("join", lambda: model.join())
assert not hasattr(model, "register_comm_hook")

first, losses = 0, {{}}
content = None
if MODE == "resume":
    content = smp.resume_from_checkpoint(FOLDER, partial=True)
    first = content["step"] + 1
if MODE == "full":
    refused("partitions", smp.resume_from_checkpoint, FOLDER)
    smp.resume_from_checkpoint(FOLDER, tag="full.pt", partial=False)
    first = 6
for step in range(first, 6):
    losses[step] = train(step)
    if MODE == "train" and step < 4:
        smp.save_checkpoint(
            FOLDER, tag=f"step{{step}}", partial=True, model=model, optimizer=optimizer,
            user_content={{"step": step, "scheduler": torch.Size([2])}},
            num_kept_partial_checkpoints=2,
        )
if MODE == "train":
    smp.save_checkpoint(FOLDER, tag="full.pt", partial=False, model=model, optimizer=optimizer)
    refused("late", smp.set_activation_checkpointing, net.blocks)
state = model.state_dict()
smp.pp_barrier(); smp.rdp_barrier(); smp.tp_barrier()
note({{
    "losses": losses,
    "words": words,
    "partitioned": partitioned,
    "dtype": [str(default), *sorted({{str(each.dtype) for each in state.values()}})],
    "recomputed": ["forward" in vars(each) for each in net.blocks],
    "sum": sum(each.double().square().sum().item() for each in state.values()),
    "files": sorted(str(each.relative_to(FOLDER)) for each in FOLDER.rglob("*")),
    "groups": [smp.get_pp_group(), smp.get_rdp_group(), smp.get_tp_group()],
    "gathered": [smp.allgather(smp.rank(), smp.TP_GROUP), smp.get_tp_process_group().size()],
}})
"""


def scripted(folder: Path, partitions: int, mode: str, checkpoints: Path) -> list[Any]:
    """What the ranks of a script noted."""
    script = _SCRIPT.format(partitions=partitions, mode=mode, folder=str(checkpoints))
    return noted(folder / mode, script, ranks=partitions)


@pytest.mark.long
def test_a_script_saves_and_resumes_as_with_smp_or_is_refused(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    trained = scripted(tmp_path, 2, "train", checkpoints)
    resumed = scripted(tmp_path, 2, "resume", checkpoints)
    (full,) = scripted(tmp_path, 1, "full", checkpoints)
    for rank, found in enumerate(trained):
        assert found["dtype"] == ["torch.float32", "torch.float64"]
        assert found["partitioned"] == [[True, True]]
        assert all(found["recomputed"])
        assert found["groups"] == [[0, 1], [rank], [rank]]
        assert found["gathered"] == [[rank], 1]
        again = resumed[rank]
        assert list(again["losses"]) == ["4", "5"]
        assert again["losses"].items() <= found["losses"].items()
        assert again["sum"] == found["sum"] == full["sum"]
    assert trained[0]["files"] == [
        "full.pt",
        "newest",
        *(
            name
            for tag in ("step2_partial", "step3_partial")
            for name in (
                tag,
                *(
                    f"{tag}/{part}_{stage}.pt"
                    for part in ("model", "optimizer")
                    for stage in (0, 1)
                ),
                f"{tag}/position.pt",
                f"{tag}/user_content.pt",
            )
        ),
    ]
    assert "was saved with 2 partitions, and this job has 1" in full["words"]["partitions"]
    for words in (found["words"] for found in trained):
        assert "has no file 'newest'" in words["nothing"]
        assert "pass its tag" in words["no tag"]
        assert "this Linear is no module within the one" in words["strange"]
        assert "drop other elements in the backward pass" in words["random"]
        assert "cut the model into more partitions" in words["tensor"]
        assert "the checkpoint's tag is 'a/b'" in words["tag"]
        assert "the ranks pass different tags ['rank0', 'rank1']" in words["tags"]
        assert "drop_last=True" in words["join"]
        assert "is called after the first step" in words["late"]
