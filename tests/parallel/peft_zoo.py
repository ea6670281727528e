"""Small models of transformers of which only a part is trained: LoRA by PEFT, frozen layers."""

from __future__ import annotations

from typing import Any

import model_zoo
from model_zoo import Published
from torch import nn


def adapted(base: str, **settings: Any) -> Published:
    """A model of the zoo with PEFT's LoRA. settings: of LoraConfig."""

    def make() -> nn.Module:
        import peft

        config = peft.LoraConfig(task_type="CAUSAL_LM", r=4, **settings)
        return peft.get_peft_model(model_zoo.ZOO[base].make(), config)

    return Published(make=make, arguments=model_zoo.ZOO[base].arguments)


def frozen(base: str, *parts: str) -> Published:
    """A model of the zoo with some modules frozen."""

    def make() -> nn.Module:
        model = model_zoo.ZOO[base].make()
        for part in parts:
            model.get_submodule(part).requires_grad_(False)
        return model

    return Published(make=make, arguments=model_zoo.ZOO[base].arguments)


ZOO = {
    "LoRA, llama": adapted("llama", target_modules=["q_proj", "v_proj"]),
    "LoRA, llama, dropout": adapted(
        "llama", target_modules="all-linear", lora_dropout=0.1, init_lora_weights=False
    ),
    "LoRA, llama, a trained head": adapted(
        "llama", target_modules=["q_proj"], modules_to_save=["lm_head"]
    ),
    "LoRA, llama, a mask": adapted("llama, a mask", target_modules=["q_proj"]),
    "LoRA, llama, rslora": adapted("llama", target_modules=["o_proj"], use_rslora=True),
    "DoRA, llama": adapted("llama", target_modules=["q_proj", "v_proj"], use_dora=True),
    "LoRA, gpt2": adapted("gpt2", target_modules=["c_attn"], fan_in_fan_out=True),
    "LoRA, gpt2, trained biases": adapted("gpt2", target_modules=["c_attn"], bias="all"),
    "gpt2, a frozen table": frozen("gpt2, positions", "transformer.wpe"),
    "llama, a frozen first half": frozen(
        "llama", "model.embed_tokens", "model.layers.0", "model.layers.1"
    ),
    "llama, a frozen second half": frozen("llama", "model.layers.2", "model.layers.3"),
    "llama, frozen but for its head": frozen("llama", "model"),
    "llama, a frozen head": frozen("llama", "lm_head"),
}
