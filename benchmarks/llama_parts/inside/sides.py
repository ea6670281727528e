"""One rank that trains a Hugging Face llama in one of four ways, and reports its steps and memory.

    torchrun --nproc-per-node 2 -m llama_parts.inside.sides SIDE STEPS

Rank 0 prints a line of JSON: the seconds of each step, the loss of each, and the largest memory of
each rank beyond what it had before the model was made.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from transformers import LlamaConfig, LlamaForCausalLM

from launcher import parallel
from launcher.parallel import Pipeline, shard
from launcher.runtime import wait_for_gloo_threads

CONFIG = LlamaConfig(
    vocab_size=4096,
    hidden_size=512,
    intermediate_size=1376,
    num_hidden_layers=8,
    num_attention_heads=8,
    max_position_embeddings=256,
    use_cache=False,
    attn_implementation="sdpa",
)
SAMPLES, TOKENS, MICROBATCHES, CUT = 8, 128, 4, 4
Step = Callable[[torch.Tensor], float | None]


def cross_entropy(output: Any, labels: torch.Tensor) -> torch.Tensor:
    logits = getattr(output, "logits", output)
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


# Pipelines: both ranks are stages and read the same batch ---------------------------------------


def launchers_pipeline(model: LlamaForCausalLM) -> Step:
    world = parallel.init(pipeline=2, global_batch=SAMPLES, microbatches=MICROBATCHES)
    example = {"input_ids": torch.zeros(SAMPLES // MICROBATCHES, TOKENS, dtype=torch.long)}
    pipeline = Pipeline(
        model,
        world,
        starts=[f"model.layers.{CUT}"],
        example=example,
        loss=cross_entropy,
        schedule="interleaved",
    )
    optimizer = torch.optim.AdamW(pipeline.parameters())

    def step(ids: torch.Tensor) -> float | None:
        optimizer.zero_grad()
        loss = pipeline.step(ids, target=ids)
        optimizer.step()
        return None if loss is None else float(loss)

    return step


class Half(nn.Module):
    """A stage as torchtitan makes it: the modules of other stages are not there."""

    def __init__(self, model: LlamaForCausalLM, *, is_first: bool) -> None:
        super().__init__()
        body = model.model
        self.embeddings = body.embed_tokens if is_first else None
        self.rotary = body.rotary_emb
        self.layers = body.layers[:CUT] if is_first else body.layers[CUT:]
        self.norm = None if is_first else body.norm
        self.head = None if is_first else model.lm_head

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        hidden = given if self.embeddings is None else self.embeddings(given)
        places = torch.arange(hidden.shape[1]).unsqueeze(0)
        table = self.rotary(hidden, position_ids=places)
        for layer in self.layers:
            hidden = layer(hidden, position_embeddings=table, position_ids=places)
        return hidden if self.head is None else self.head(self.norm(hidden))


def titans_pipeline(model: LlamaForCausalLM) -> Step:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    half = Half(model, is_first=rank == 0)
    del model.model, model.lm_head
    stage = PipelineStage(half, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=cross_entropy)
    optimizer = torch.optim.AdamW(half.parameters())

    def step(ids: torch.Tensor) -> float | None:
        optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(ids)
        else:
            schedule.step(target=ids, losses=losses)
        optimizer.step()
        return float(torch.stack(losses).mean()) if losses else None

    return step


# Shards: each rank reads a batch of its own -----------------------------------------------------


def launchers_shards(model: LlamaForCausalLM) -> Step:
    world = parallel.init()
    return _by_hand(shard(model, world))


def accelerates_shards(model: LlamaForCausalLM) -> Step:
    from accelerate import Accelerator, FullyShardedDataParallelPlugin

    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        reshard_after_forward=True,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
    )
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    optimizer = torch.optim.AdamW(model.parameters())
    prepared, optimizer = accelerator.prepare(model, optimizer)
    return _by_hand(prepared, optimizer, accelerator.backward)


def _by_hand(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    backward: Callable[[torch.Tensor], object] = torch.Tensor.backward,
) -> Step:
    used = optimizer or torch.optim.AdamW(model.parameters())

    def step(ids: torch.Tensor) -> float | None:
        used.zero_grad()
        loss = cross_entropy(model(input_ids=ids), ids)
        backward(loss)
        used.step()
        return float(loss.detach())

    return step


# ------------------------------------------------------------------------------------------------

SIDES: dict[str, Callable[[LlamaForCausalLM], Step]] = {
    "launcher's pipeline": launchers_pipeline,
    "torchtitan's cut": titans_pipeline,
    "launcher's shards": launchers_shards,
    "Accelerate's FSDP2": accelerates_shards,
}
WARM_UP = 2


def main(side: str, steps: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = _peak_mib()
    step = SIDES[side](LlamaForCausalLM(CONFIG))
    seconds, losses = [], []
    for number in range(WARM_UP + steps):
        draw = torch.Generator().manual_seed(number)
        ids = torch.randint(0, CONFIG.vocab_size, (SAMPLES, TOKENS), generator=draw)
        dist.barrier()
        began = time.perf_counter()
        loss = step(ids)
        dist.barrier()
        seconds.append(time.perf_counter() - began)
        losses.append(loss)
    memory: list[float] = [0.0] * dist.get_world_size()
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(memory, _peak_mib() - before)
    dist.all_gather_object(every, losses)
    if dist.get_rank() == 0:
        told = next(each for each in every if each[0] is not None)
        print(json.dumps({"seconds": seconds[WARM_UP:], "losses": told, "memory": memory}))
    dist.barrier()
    dist.destroy_process_group()
    wait_for_gloo_threads()


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
