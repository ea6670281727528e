"""The modules within smp's package, by their names there: `amp`, `nn`, `optimizers`, `patches`.

Each has few names here, or only those that it refuses, so one table stands for their files. Scripts
import them as they do in smp, `from launcher.parallel.smp.nn.huggingface.gpt2 import ...`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from torch import nn as layers
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from launcher.errors import ParallelError
from launcher.parallel.precision import scaler
from launcher.parallel.smp.smp_session import session


class SmpModule(ModuleType):
    """A module of smp. refused: what to use instead of its other names, by how these begin."""

    def __init__(
        self, path: str, names: Mapping[str, object], refused: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{__package__}.{path}")
        vars(self).update(names)
        self._refused = refused or {}
        sys.modules[self.__name__] = self  # from where `import` takes it

    def __getattr__(self, name: str) -> Any:
        for beginning, instead in self._refused.items():
            if name.startswith(beginning):
                # No AttributeError, which `from ... import` replaces by its own message.
                path = self.__name__.removeprefix(f"{__package__}.")
                raise ParallelError(f"smp.{path}.{name} is not supported{instead}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def GradScaler(**options: object) -> ShardedGradScaler:  # noqa: N802 - smp's name
    """Return a scaler to use in place of torch.amp.GradScaler; all ranks skip the same steps.

    options: passed to torch.amp.GradScaler, except the device.
    """
    return scaler(session().world, **options)


class FusedLayerNorm(layers.LayerNorm):  # type: ignore[misc] # torch types it as Any
    """torch.nn.LayerNorm, under the name by which scripts find smp's layers in a model."""


def same_names(state_dict: Mapping[str, Any], max_seq_len: int | None = None) -> dict[str, Any]:
    """Return a state as it is: without smp's distributed layers, its names are Hugging Face's.

    max_seq_len: accepted; smp needs it for the causal masks of its distributed layers.
    """
    return dict(state_dict)


def _translations(family: str, *others: str) -> SmpModule:
    """Return the module that translates the states of a family of Hugging Face's models."""
    there = f"translate_hf_state_dict_to_smdistributed_{family}"
    names = (f"translate_state_dict_to_hf_{family}", there, *others)
    return SmpModule(f"nn.huggingface.{family}", dict.fromkeys(names, same_names))


amp = SmpModule("amp", {"GradScaler": GradScaler})
nn = SmpModule(
    "nn",
    {
        "FusedLayerNorm": FusedLayerNorm,
        "huggingface": SmpModule(
            "nn.huggingface",
            {
                "bert": _translations("bert"),
                # The second name is that of older scripts, and for GPT-J that of smp's guide.
                "gpt2": _translations("gpt2", "translate_hf_state_dict_to_smdistributed"),
                "gptj": _translations("gptj", "translate_hf_gptj_state_dict_to_smdistributed_gptj"),
                "gptneo": _translations("gptneo"),
                "gptneox": _translations("gptneox"),
                "roberta": _translations("roberta"),
            },
        ),
    },
    {
        "Distributed": ", since there is no tensor parallelism: use the layers of torch.nn, and "
        "cut the model into more partitions",
        "FlashAttentionLayer": ": use torch.nn.functional.scaled_dot_product_attention, which "
        "chooses FlashAttention where the GPU has it",
    },
)
optimizers = SmpModule(
    "optimizers",
    {},
    {"Fused": ": use an optimizer of torch.optim, such as AdamW(parameters, fused=True)"},
)
patches = SmpModule(
    "patches",
    {
        "checkpoint": SmpModule(
            "patches.checkpoint",
            {},
            {
                "checkpoint": ": call the module itself, and "
                "smp.set_activation_checkpointing(module) before the first step"
            },
        )
    },
)
