"""One model that learns from one data set, on ranks of any degrees, and can be saved."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from architectures import Gpt
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

from launcher import parallel
from launcher.data import DataLoader, LoaderOptions
from launcher.parallel import ParallelContext, Pipeline, replicate, shard_mesh
from launcher.parallel.checkpoints import Checkpoints, State
from launcher.shared import ParallelDims

_STARTS = {1: (), 2: ("blocks.2.second",), 4: ("blocks.1", "blocks.2.second", "head")}


class Samples:
    """48 of them: three steps, so that what is learned after a save is in three epochs."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(index)
        return {"index": index, "ids": torch.randint(0, 19, (10,), generator=generator)}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How ranks share the model; the rest are replicas.

    sharded: by FSDP2, not replicated. shard_degree: by FSDP2 within each stage. is_bare: whether
    the module of a pipeline is saved, which does not know which parameters are tied to those of
    other stages.
    """

    ranks: int
    pipeline: int = 1
    virtual_stages: int = 1
    shard_degree: int = 1
    sharded: bool = False
    is_bare: bool = False


KINDS = {
    "1 x 1": Kind(ranks=1),
    "1 x 2": Kind(ranks=2),
    "2 x 1": Kind(ranks=2, pipeline=2),
    "2 x 1, virtual stages": Kind(ranks=2, pipeline=2, virtual_stages=2),
    "2 x 1, bare": Kind(ranks=2, pipeline=2, is_bare=True),
    "2 x 2": Kind(ranks=4, pipeline=2),
    "1 x 2, shards of 2": Kind(ranks=2, shard_degree=2),
    "2 x 2, shards of 2": Kind(ranks=4, pipeline=2, shard_degree=2),
    "1 x 4, shards of 2": Kind(ranks=4, shard_degree=2),
    "4 x 1": Kind(ranks=4, pipeline=4),
    "1 x 4": Kind(ranks=4),
    "2 x 4": Kind(ranks=8, pipeline=2),
    "4 x 2": Kind(ranks=8, pipeline=4),
    "4 x 4": Kind(ranks=16, pipeline=4),
    "sharded over 2": Kind(ranks=2, sharded=True),
    "sharded over 4": Kind(ranks=4, sharded=True),
}


class Learner:
    """A rank's part of it. Its batches have 16 samples, of all replicas together."""

    def __init__(self, kind: Kind, folder: Path | str, *, dropout: float = 0.0) -> None:
        self.world = _world(kind)
        torch.manual_seed(0)
        model = Gpt(tied=True, dropout=dropout).double()
        model.norm.bias.requires_grad_(False)
        model.unused = nn.Linear(3, 3).double()
        self.model = self._shared_out(model, kind)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.7)
        self._loader = DataLoader(
            "learner:Samples",
            self.world.degrees.batch,
            shuffle=True,
            options=LoaderOptions(rank=self.world.dp_rank, world_size=self.world.degrees.data),
        )
        self._batches = itertools.chain.from_iterable(itertools.repeat(self._loader))
        self.checkpoints = Checkpoints(folder, self.world)
        self.state = State(
            model=self.model.module if kind.is_bare else self.model,
            optimizers=[self.optimizer],
            shared={"scheduler": self.scheduler},
            loaders={"train": self._loader},
        )

    def learn(self) -> Iterator[tuple[float, list[int]]]:
        """The loss of each step, and the samples of this rank's replica."""
        for batch in self._batches:
            inputs, targets = batch["ids"][:, :-1], batch["ids"][:, 1:].contiguous()
            self.optimizer.zero_grad()
            if isinstance(self.model, Pipeline):
                loss = self.model.step(inputs, target=targets)
                self.model.clip(0.5)
            else:
                loss = _loss(self.model(inputs), targets)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optimizer.step()
            self.scheduler.step()
            yield loss.item(), batch["index"].tolist()

    def squares(self) -> dict[str, float]:
        """Of the parameters that this rank has, whole, the sums of squares."""
        module = self.model.module if isinstance(self.model, Pipeline) else self.model
        return {
            name.removeprefix("module."): _whole(each).square().sum().item()
            for name, each in module.named_parameters()
        }

    def _shared_out(self, model: Gpt, kind: Kind) -> nn.Module | Pipeline:
        if kind.pipeline > 1 or kind.shard_degree > 1:
            size = self.world.degrees.microbatch
            return Pipeline(
                model,
                self.world,
                starts=_STARTS[self.world.degrees.stages],
                example={"ids": torch.zeros(size, 9, dtype=torch.long)},
                loss=_loss,
            )
        if kind.sharded:
            for block in model.blocks:
                fully_shard(block, mesh=self.world.mesh["dp"])
            return fully_shard(model, mesh=self.world.mesh["dp"])
        return replicate(model, self.world, find_unused_parameters=True)


@functools.cache
def _world(kind: Kind) -> ParallelContext:
    """The ranks that have met, seen with other degrees.

    Made once for each kind: groups last as long as the process, and their idle threads take turns.
    """
    joined = parallel.world()
    degrees = ParallelDims(
        world=joined.degrees.world,
        pipeline=kind.pipeline,
        virtual_stages=kind.virtual_stages,
        shard_degree=kind.shard_degree,
        global_batch=16,
        microbatches=4,
    )
    mesh = DeviceMesh("cpu", degrees.grid, mesh_dim_names=("dp", "pp"))
    shards = shard_mesh(torch.device("cpu"), degrees)
    return replace(joined, degrees=degrees, mesh=mesh, shard_mesh=shards)


def _loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(output, targets.view(-1))


def _whole(parameter: torch.Tensor) -> torch.Tensor:
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
