"""`save_checkpoint` and `resume_from_checkpoint`, with the folders and files of smp.

A partial checkpoint is the folder `TAG_partial` with a file per stage for the model and for the
optimizer; a full one is the file `TAG` with the state of the whole model. The file `newest` names
the partial checkpoint that was completed last.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from launcher.errors import ParallelError
from launcher.parallel.smp.communication import WORLD, allgather, barrier
from launcher.parallel.smp.distributed_model import DistributedModel
from launcher.parallel.smp.optimizer import DistributedOptimizer
from launcher.parallel.smp.smp_session import session
from launcher.shared import replacing

_NEWEST = "newest"
_PARTIAL = "_partial"
_USER_CONTENT = "user_content"
#: Of the training, which seeds random numbers; smp has no such file.
_POSITION = "position.pt"


def save_checkpoint(
    path: str | os.PathLike[str],
    tag: str,
    partial: bool = True,
    model: DistributedModel | None = None,
    optimizer: DistributedOptimizer | None = None,
    user_content: object = None,
    translate_if_full: bool = True,
    num_kept_partial_checkpoints: int | None = None,
) -> None:
    """Save the model, the optimizer and other content. All ranks call it, after the first step.

    tag: the checkpoint's name, the same on all ranks. partial: a file per stage, to be resumed from
        with the same number of partitions; else one file of the model alone, as one process saves
        its state_dict.
    user_content: any picklable object. num_kept_partial_checkpoints: how many partial checkpoints
        are kept; the older ones are deleted once this one is complete.
    translate_if_full: accepted and ignored, since names are those of the model in any case.

    Raises ParallelError, and OSError where the folder cannot be written.
    """
    folder = Path(path)
    _check_tag(tag)
    world = session().world
    is_writer = world.dp_rank == 0
    if partial:
        own = folder / f"{tag}{_PARTIAL}"
        if is_writer:
            own.mkdir(parents=True, exist_ok=True)
            for name, each in (("model", model), ("optimizer", optimizer)):
                if each is not None:
                    _write(own / f"{name}_{world.pp_rank}.pt", each.local_state_dict())
        if world.rank == 0:
            _write(own / f"{_USER_CONTENT}.pt", user_content)
            if model is not None:
                _write(own / _POSITION, model.position)
        barrier()  # all files are written
        if world.rank == 0:
            with replacing(folder / _NEWEST) as draft:
                draft.write_text(tag)
            _delete_older(folder, own, num_kept_partial_checkpoints)
    elif is_writer:
        state = None if model is None else model.state_dict()
        if world.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            if state is not None:
                _write(folder / tag, state)
            if user_content is not None:
                _write(folder / f"{_USER_CONTENT}_{tag}", user_content)
    barrier()


def resume_from_checkpoint(
    path: str | os.PathLike[str],
    tag: str | None = None,
    partial: bool = True,
    strict: bool = True,
    load_optimizer: bool = True,
    load_sharded_optimizer_state: bool = True,
    translate_function: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Any:
    """Load what `save_checkpoint` saved; return the user content, or None. All ranks call it.

    It may be called before the first step, once the model and the optimizer are wrapped.

    tag: the checkpoint's name; by default that of the newest partial one. strict: whether all names
        of the model must be in the state, and no others. load_optimizer: for partial checkpoints; a
        full one has no optimizer state. translate_function: changes the state of a full checkpoint.
    load_sharded_optimizer_state: accepted and ignored, since nothing is sharded.

    Raises ParallelError if there is no such checkpoint, or if it is of other partitions.
    """
    folder = Path(path)
    models, optimizers = session().models, session().optimizers
    if not models:
        raise ParallelError("smp.resume_from_checkpoint needs a smp.DistributedModel: create it")
    if not partial:
        state = torch.load(_existing(folder / _named(tag)), map_location="cpu")
        models[0].load_state_dict(
            translate_function(state) if translate_function else state, strict
        )
        content = folder / f"{_USER_CONTENT}_{tag}"
        return _load_content(content) if content.exists() else None
    own = folder / f"{tag or _newest(folder)}{_PARTIAL}"
    _check_partitions(own)
    stage = session().world.pp_rank
    if (file := own / f"model_{stage}.pt").exists():
        models[0].load_state_dict(torch.load(file, map_location="cpu"), strict)
        models[0].move_to(torch.load(_existing(own / _POSITION)))
    if load_optimizer and optimizers and (file := own / f"optimizer_{stage}.pt").exists():
        optimizers[0].load_state_dict(torch.load(file, map_location="cpu"))
    return _load_content(own / f"{_USER_CONTENT}.pt")


def _load_content(file: Path) -> Any:
    # Any object of the script's own job, as smp saved it.
    return torch.load(_existing(file), map_location="cpu", weights_only=False)


def _check_tag(tag: object) -> None:
    tags = allgather(tag, WORLD)
    if not isinstance(tag, str) or not tag or Path(tag).name != tag:
        raise ParallelError(f"the checkpoint's tag is {tag!r}: pass a text without slashes")
    if any(each != tag for each in tags):
        raise ParallelError(f"the ranks pass different tags {tags}: pass the same on all ranks")


def _named(tag: str | None) -> str:
    if tag is None:
        raise ParallelError("a full checkpoint has no newest one: pass its tag")
    return tag


def _newest(folder: Path) -> str:
    file = folder / _NEWEST
    if not file.exists():
        raise ParallelError(
            f"{folder} has no file {_NEWEST!r}, so no partial checkpoint was completed there: "
            "check the path, or pass a tag"
        )
    return file.read_text().strip()


def _existing(file: Path) -> Path:
    if not file.exists():
        raise ParallelError(f"there is no checkpoint {file}: check the path and the tag")
    return file


def _check_partitions(own: Path) -> None:
    count = len(list(_existing(own).glob("model_*.pt")))
    here = session().world.degrees.pipeline
    if count not in (0, here):
        raise ParallelError(
            f"{own} was saved with {count} partitions, and this job has {here}: use {count}, or "
            "save with partial=False, which any number of partitions can load"
        )


def _write(file: Path, value: object) -> None:
    with replacing(file) as draft:
        torch.save(value, draft)


def _delete_older(folder: Path, newest: Path, kept: int | None) -> None:
    if kept is None:
        return
    older = [each for each in folder.glob(f"*{_PARTIAL}") if each != newest and each.is_dir()]
    older.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for each in older[max(kept - 1, 0) :]:
        shutil.rmtree(each)
