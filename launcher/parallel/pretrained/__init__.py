"""Weights in Hugging Face's layout: read by the ranks that need them, and written back.

    with without_weights():
        model = LlamaForCausalLM(config)
    pipeline = Pipeline(model, world, ..., weights="Llama-2-7b-hf")

Such a folder has `model.safetensors`, or several shards and `model.safetensors.index.json`. Each
rank reads the tensors of its own stages, and no rank ever holds the whole model. Nothing here needs
the packages transformers and safetensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.parallel.pretrained.pretrained_folder import check_pretrained, write_pretrained
    from launcher.parallel.pretrained.pretrained_weights import PretrainedWeights, without_weights
    from launcher.parallel.pretrained.tensor_file import stored_tensors, write_tensors

__all__ = ["PretrainedWeights", "without_weights", "write_pretrained"]

__getattr__ = open_door(__name__)
