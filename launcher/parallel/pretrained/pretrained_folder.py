"""Export of weights to a folder in Hugging Face's layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch

from launcher.errors import ParallelError
from launcher.parallel.pretrained.tensor_file import write_tensors

#: The file that from_pretrained reads first.
_CONFIG = "config.json"
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt")
_FILE = "model.safetensors"


def write_pretrained(
    state: Mapping[str, torch.Tensor],
    folder: Path | str,
    *,
    like: Path | str,
    tied: Mapping[str, str] | None = None,
) -> None:
    """Write a model's weights beside the other files of the folder that it was made from.

    transformers' `from_pretrained` reads the folder. Needs the whole state in memory.

    state: the model's state_dict. like: a folder with config.json, and perhaps a tokenizer; its
    files are copied, but for weights. tied: names of tied parameters that are not written, each
    with the name that is; as from `ties.tied_names`. Raises ParallelError.
    """
    source, target = Path(like), Path(folder)
    check_pretrained(state, source)
    written = {name: each for name, each in state.items() if name not in (tied or {})}
    part = target / f"{_FILE}.part"
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            is_weight = any(file.match(each) for each in _WEIGHTS)
            if file.is_file() and not is_weight and source.resolve() != target.resolve():
                shutil.copyfile(file, target / file.name)
        _set_dtype(target / _CONFIG, written)
        write_tensors(written, part)
        part.replace(target / _FILE)
    except OSError as error:
        raise ParallelError(f"{target} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def check_pretrained(state: Mapping[str, object], like: Path | str) -> None:
    """Raise ParallelError for a state that `write_pretrained` cannot write, or not beside `like`.

    state: the model's state_dict, which may be without weights.
    """
    if objects := [name for name, value in state.items() if not isinstance(value, torch.Tensor)]:
        raise ParallelError(
            f"{', '.join(objects)} of the model's state_dict is not a tensor, and files of "
            "safetensors hold tensors alone"
        )
    config = Path(like) / _CONFIG
    if not config.is_file():
        raise ParallelError(
            f"{like} has no {_CONFIG}, which from_pretrained reads first: copy that of the model, "
            "or for a model of your own write one with {} in it"
        )
    try:
        content = json.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise ParallelError(f"{config} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ParallelError(f"{config} is not a JSON object")


def _set_dtype(config: Path, written: Mapping[str, torch.Tensor]) -> None:
    """Let the configuration name the weights' dtype, in which from_pretrained creates the model."""
    kinds = {each.dtype for each in written.values() if each.is_floating_point()}
    content = json.loads(config.read_text())
    names = [name for name in ("dtype", "torch_dtype") if name in content]
    if len(kinds) == 1 and names:
        content |= dict.fromkeys(names, str(kinds.pop()).removeprefix("torch."))
        config.write_text(json.dumps(content, indent=2) + "\n")
