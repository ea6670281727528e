"""Ranks that learn the models of a zoo of tests/parallel: cut_on_ranks.py ZOO OUT.

Each model is trained in as many stages as there are ranks; with two, each module of an architecture
is tried as the start of the second. Written to OUT: losses bit by bit, or why a cut is refused.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from launcher import ParallelError, parallel

sys.path.append(str(Path(__file__).parents[1] / "parallel"))

#: The docs' name; should the package's door have it one day, that is the one.
_PIPELINE = getattr(parallel, "Pipeline", None)
Pipeline: Any = _PIPELINE or import_module("launcher.parallel.pipeline").Pipeline
_STEPS, _MICROBATCHES = 3, 2


def main(zoo: str, out: Path) -> None:
    world = parallel.init(pipeline=int(os.environ["WORLD_SIZE"]), microbatches=_MICROBATCHES)
    made = {name: learned(world, *each) for name, *each in models(zoo)}
    if parallel.rank() == parallel.size() - 1:
        out.write_text(json.dumps(made))
    parallel.leave()


def models(zoo: str) -> Iterator[tuple[str, Any, Any, str, Any]]:
    """Each model's name, how it and its arguments are made, a place to cut it, and its loss."""
    module = import_module(zoo)
    for name, each in getattr(module, "ARCHITECTURES", {}).items():
        arguments = partial(each.arguments, torch.Generator().manual_seed(1))
        yield name, each.make, arguments, each.starts[1], None
    for name, each in getattr(module, "ZOO", {}).items():
        yield name, each.make, each.arguments, "", each.loss


def learned(world: Any, make: Any, arguments: Any, given: str, loss: Any) -> Any:
    torch.manual_seed(0)
    model = make().double().train()
    torch.manual_seed(1)
    example = _double(arguments())
    pristine = copy.deepcopy(model)
    start = given or _middle_block(model)
    rest: dict[str, Any] = {}
    if world.degrees.pipeline > 1 and given:
        names = [name for name, _ in model.named_modules() if name]
        rest["starts"] = {name: _start(world, pristine, name, example) for name in names}
    try:
        pipeline = _cut(world, model, start, example, loss or _any_loss)
        optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.01)
        losses = [_step(pipeline, optimizer, arguments) for _ in range(_STEPS)]
    except ParallelError as error:
        return {"refused": str(error), **rest}
    return {"losses": losses, **rest}


def _middle_block(model: nn.Module) -> str:
    """The name of the block in the middle of the longest list of them."""
    lists = {name: each for name, each in model.named_modules() if isinstance(each, nn.ModuleList)}
    name = max(lists, key=lambda each: len(lists[each]))
    return f"{name}.{len(lists[name]) // 2}"


def _cut(world: Any, model: nn.Module, start: str, example: Any, loss: Any) -> Any:
    starts = [start] if world.degrees.pipeline > 1 else []
    return Pipeline(
        model, world, starts=starts, example=example, loss=lambda output, _: loss(output)
    )


def _start(world: Any, model: nn.Module, name: str, example: Any) -> str:
    """Whether a stage can begin at a module, or why not."""
    try:
        _cut(world, copy.deepcopy(model), name, example, _any_loss)
    except ParallelError as error:
        return str(error).partition("\n")[0]
    return "can begin"


def _step(pipeline: Any, optimizer: Any, arguments: Any) -> str:
    parts = [_double(arguments()) for _ in range(_MICROBATCHES)]
    whole = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    optimizer.zero_grad()
    placed = whole.values() if "target" in whole else ()  # a name that the step has, too
    named = {} if placed else whole
    found = pipeline.step(*placed, **named, target=torch.zeros(_MICROBATCHES)).item()
    optimizer.step()
    return str(found.hex())


def _double(given: Any) -> Any:
    return {
        key: value.double() if value.is_floating_point() else value for key, value in given.items()
    }


def _any_loss(output: Any) -> Any:
    if (found := getattr(output, "loss", None)) is not None:
        return found
    leaves = [each for each in tree_leaves(output) if torch.is_tensor(each)]
    return sum(each.sin().mean() for each in leaves if each.is_floating_point())


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]))
