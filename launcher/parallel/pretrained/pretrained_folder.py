"""Export of weights to a folder in Hugging Face's layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch

from launcher.errors import ParallelError
from launcher.parallel.pretrained.tensor_file import write_tensors

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
    if not (source / "config.json").is_file():
        raise ParallelError(f"{source} has no config.json, so from_pretrained could not read it")
    written = {name: each for name, each in state.items() if name not in (tied or {})}
    part = target / f"{_FILE}.part"
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            is_weight = any(file.match(each) for each in _WEIGHTS)
            if file.is_file() and not is_weight and source.resolve() != target.resolve():
                shutil.copyfile(file, target / file.name)
        _set_dtype(target / "config.json", written)
        write_tensors(written, part)
        part.replace(target / _FILE)
    except OSError as error:
        raise ParallelError(f"{target} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _set_dtype(config: Path, written: Mapping[str, torch.Tensor]) -> None:
    """Let the configuration name the weights' dtype, in which from_pretrained creates the model."""
    kinds = {each.dtype for each in written.values() if each.is_floating_point()}
    content = json.loads(config.read_text())
    names = [name for name in ("dtype", "torch_dtype") if name in content]
    if len(kinds) == 1 and names:
        content |= dict.fromkeys(names, str(kinds.pop()).removeprefix("torch."))
        config.write_text(json.dumps(content, indent=2) + "\n")
