"""Export of a checkpoint to one file that does not need this package: a plain state_dict."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from launcher.errors import ParallelError
from launcher.parallel.checkpoints import folders, manifests
from launcher.parallel.checkpoints.contents import MODEL
from launcher.parallel.pretrained import check_pretrained, write_pretrained


def export(folder: Path | str, file: Path | str) -> Path:
    """Write the model of a checkpoint into one file, as whole tensors under its own names.

    Needs no job, but memory for the whole model. Returns the folder that was used. Raises
    ParallelError.

    folder: a `step-N`, or a folder of several, of which the newest complete one is used.
    file: the file to write: safetensors if its suffix is .safetensors, else torch.save's format. As
        with safetensors' save_model, later names of tied parameters go to the metadata.
    """
    chosen, target = _choose(Path(folder)), Path(file)
    if not target.parent.is_dir():
        raise ParallelError(
            f"{target} cannot be written: the folder {target.parent} does not exist"
        )
    write = write_safetensors if target.suffix == ".safetensors" else _write
    tied = manifests.read_manifest(chosen).tied
    part = target.with_name(f"{target.name}.part")
    try:
        write(_model_in(chosen), tied, part)
        part.replace(target)
    except OSError as error:
        raise ParallelError(f"{target} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return chosen


def export_pretrained(folder: Path | str, target: Path | str, *, like: Path | str) -> Path:
    """Write the model of a checkpoint as a folder that transformers' `from_pretrained` reads.

    Memory, `folder`, result and errors as for `export`. like: the folder that the model was made
    from, whose configuration and tokenizer are copied.
    """
    chosen = _choose(Path(folder))
    tied = manifests.read_manifest(chosen).tied
    model = _model_in(chosen)
    check_pretrained(model, like)
    state = {name: each for name, each in model.items() if isinstance(each, torch.Tensor)}
    write_pretrained(state, target, like=like, tied=tied)
    return chosen


def _choose(folder: Path) -> Path:
    if not folder.is_dir():
        raise ParallelError(
            f"{folder} is not a folder: give the folder that checkpoints were saved in"
        )
    if (folder / manifests.NAME).exists() or not folders.steps_in(folder):
        if problem := manifests.find_problem(folder):
            raise ParallelError(f"{folder} is not a complete checkpoint: it {problem}")
        return folder
    choice = folders.newest(folder)
    if choice.step is None:
        raise ParallelError(f"{folder} has no complete checkpoint: {'; '.join(choice.skipped)}")
    return folders.folder_of(folder, choice.step)


def _model_in(folder: Path) -> dict[str, object]:
    saved = checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata
    tensors = {key: _allocate(each) for key, each in saved.items() if key.startswith(MODEL)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        checkpoint.load(
            tensors,
            storage_reader=checkpoint.FileSystemReader(folder),
            planner=DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
            no_dist=True,
        )
    return {key[len(MODEL) :]: value for key, value in tensors.items()}


def _allocate(saved: object) -> torch.Tensor | None:
    if not isinstance(saved, TensorStorageMetadata):
        return None
    return torch.empty(saved.size, dtype=saved.properties.dtype)


def _write(model: dict[str, Any], tied: Mapping[str, str], file: Path) -> None:
    with file.open("wb") as stream:  # raises OSError on failure, where torch raises other errors
        torch.save(model | {name: model[first] for name, first in tied.items()}, stream)


def write_safetensors(model: dict[str, object], tied: Mapping[str, str], file: Path) -> None:
    """Write a .safetensors file. tied: other names of shared tensors, each with the written one.

    The format has no shared tensors. Like safetensors.torch.save_model, this writes one of the
    names, and the others to the metadata, where its load_model finds them. Raises ParallelError if
    the package is missing, and for values that are not tensors.
    """
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise ParallelError(
            "the package safetensors is not installed: install it, or export to a file without the "
            "suffix .safetensors, which torch.save writes"
        ) from None
    if objects := [name for name, value in model.items() if not torch.is_tensor(value)]:
        raise ParallelError(
            f"{', '.join(objects)} is not a tensor, and .safetensors files hold only tensors: "
            "export to a file with another suffix, which torch.save writes"
        )
    save_file(model, file, metadata={"format": "pt", **tied})
