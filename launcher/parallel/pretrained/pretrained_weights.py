"""The weights of a folder in Hugging Face's layout, read by name, and models that wait for them."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from launcher.errors import ParallelError
from launcher.parallel.pretrained.tensor_file import StoredTensor, stored_tensors

_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"
#: Names in an error.
_SHOWN = 5


class PretrainedWeights:
    """Weights in a folder. Creating it reads the headers of its files, not the weights.

    folder: has model.safetensors, or model.safetensors.index.json and the shards that it names.
    unused: names of tensors that the model does not have, as patterns ("*.rotary_emb.inv_freq").

    Raises ParallelError for files that are missing, incomplete or of another format.
    """

    def __init__(self, folder: Path | str, unused: Sequence[str] = ()) -> None:
        self.folder = Path(folder)
        self._unused = tuple(unused)
        self._stored = dict(_stored_in(self.folder))
        #: Bytes of weights read so far.
        self.bytes_read = 0

    @property
    def largest(self) -> int:
        """Bytes of the largest tensor."""
        return max((each.nbytes for each in self._stored.values()), default=0)

    def check(self, model: nn.Module) -> None:
        """Compare with the names and shapes of a whole model, which may be without weights.

        Raises ParallelError that names what is missing, unexpected, or of another shape.
        """
        entries = _entries(model)
        missing = [
            each.names[0] for each in entries if each.is_saved and self._source(each) is None
        ]
        known = {name for each in entries for name in each.names}
        unexpected = [
            name
            for name in self._stored
            if name not in known
            and not any(fnmatch.fnmatchcase(name, each) for each in self._unused)
        ]
        shapes = [
            f"{each.names[0]} ({list(found.shape)} in the file, {list(each.value.shape)} in the "
            "model)"
            for each in entries
            if (found := self._source(each)) is not None and found.shape != each.value.shape
        ]
        problems = [
            f"{what}: {_shown(each)}"
            for what, each in (
                ("missing", missing),
                ("unexpected", unexpected),
                ("of another shape", shapes),
            )
            if each
        ]
        if problems:
            hint = "; name them in unused=, if the model does not need them" if unexpected else ""
            raise ParallelError(
                f"the weights in {self.folder} are not those of {type(model).__name__}; "
                f"{'; '.join(problems)}{hint}"
            )

    def load(self, model: nn.Module, part: nn.Module, device: torch.device) -> None:
        """Read the weights of a part of a model, and move it to a device.

        Only the tensors of the part are read, one after the other, each once. They get the dtype
        that the parameters have. Parameters without storage get theirs here, on the device.

        model: the whole model, for its names, which may be without weights. Raises ParallelError as
        `check` does, and for buffers without values.
        """
        self.check(model)
        held = {id(each) for each in (*part.parameters(), *part.buffers())}
        for each in _entries(model):
            if id(each.value) not in held:
                continue
            if (source := self._source(each)) is not None:
                self._fill(each.value, source, device)
            elif each.value.is_meta:
                raise ParallelError(
                    f"the buffer {each.names[0]} has no values, and none are saved: create the "
                    "model within launcher.parallel.pretrained.without_weights()"
                )
        part.to(device)

    def _fill(self, value: torch.Tensor, source: StoredTensor, device: torch.device) -> None:
        self.bytes_read += source.nbytes
        if not value.is_meta:
            value.data.copy_(source.read())
            return
        if device.type == "cpu" and value.dtype == source.dtype:
            data = source.read()
        else:
            data = source.read().to(device=device, dtype=value.dtype)
        if isinstance(value, nn.Parameter):
            made: torch.Tensor = nn.Parameter(data, requires_grad=value.requires_grad)
        else:
            made = data
        # The same object gets other contents: modules, ties and stages refer to it. Attributes, by
        # which some models tell optimizers what must not decay, are swapped as well.
        vars(made).update(vars(value))
        torch.utils.swap_tensors(value, made)

    def _source(self, entry: _Entry) -> StoredTensor | None:
        """Return the tensor that is saved under one of the names of a parameter or buffer."""
        return next((self._stored[name] for name in entry.names if name in self._stored), None)


def _stored_in(folder: Path) -> Iterator[tuple[str, StoredTensor]]:
    index = folder / _INDEX
    if not index.exists():
        if not (folder / _FILE).exists():
            raise ParallelError(
                f"{folder} has neither {_FILE} nor {_INDEX}: give the folder of a model that was "
                "saved with safetensors (save_pretrained, or a download from the hub)"
            )
        yield from stored_tensors(folder / _FILE).items()
        return
    shard_of = _read_index(index)
    shards = {shard: stored_tensors(folder / shard) for shard in dict.fromkeys(shard_of.values())}
    for name, shard in shard_of.items():
        if name not in shards[shard]:
            raise ParallelError(f"{index} says that {name} is in {shard}, where it is not")
        yield name, shards[shard][name]


def _read_index(index: Path) -> Mapping[str, str]:
    try:
        found = json.loads(index.read_text())["weight_map"]
        if all(Path(each).name == each for each in found.values()):
            return dict(found)
    except OSError as error:
        raise ParallelError(f"{index} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ParallelError(f"{index} is not an index of safetensors files: {error!r}") from error
    raise ParallelError(f"{index} names files in other folders, which are not read")


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A parameter or buffer of a model with all its names. is_saved: if in the state_dict."""

    names: list[str]
    value: torch.Tensor
    is_saved: bool


def _entries(model: nn.Module) -> list[_Entry]:
    saved = {id(each) for each in model.state_dict(keep_vars=True).values()}
    found: dict[int, _Entry] = {}
    parameters = model.named_parameters(remove_duplicate=False)
    for name, value in (*parameters, *model.named_buffers(remove_duplicate=False)):
        new = _Entry(names=[], value=value, is_saved=id(value) in saved)
        found.setdefault(id(value), new).names.append(name)
    return list(found.values())


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@contextmanager
def without_weights() -> Iterator[None]:
    """Create parameters without storage within the context, in whatever module they are registered.

    Buffers keep their values, since those that are not saved (rotary tables) come from nowhere
    else. Not for several threads at once.
    """
    register = nn.Module.register_parameter

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, None if parameter is None else _on_meta(parameter))

    nn.Module.register_parameter = registered  # torch has no hook for it
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def _on_meta(parameter: nn.Parameter) -> nn.Parameter:
    """Return a parameter on the meta device; one that is there already stays the same, and tied."""
    if is_lazy(parameter) or parameter.is_meta:
        return parameter
    kind: Any = type(parameter)
    data = torch.empty_like(parameter.data, device="meta")
    made: nn.Parameter = kind(data, requires_grad=parameter.requires_grad)
    made.__dict__.update(parameter.__dict__)
    return made
