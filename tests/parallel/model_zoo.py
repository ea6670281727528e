"""Small models of Hugging Face's libraries, made from their configurations, with two samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class Published:
    """A model as its library publishes it. arguments: of two samples, by name.

    loss: takes the model's output; by default its `loss`, or a function of all tensors in it.
    """

    make: Callable[[], nn.Module]
    arguments: Callable[[], dict[str, Any]]
    loss: Callable[[Any], torch.Tensor] | None = None


#: The names by which models call their lists of blocks.
_LISTS = ("layers", "layer", "h", "block", "blocks")


def uncut_blocks(model: nn.Module, boundaries: Sequence[str]) -> list[str]:
    """Return the entries of a model's lists of blocks at and in which no stage can begin."""
    # Imported here: `make same` reads the zoo in older trees, where it may be elsewhere.
    from launcher.parallel import is_in

    lists = [
        name
        for name, each in model.named_modules()
        if isinstance(each, nn.ModuleList) and name.rpartition(".")[2] in _LISTS
    ]
    outer = [name for name in lists if not any(is_in(name, each) for each in lists if each != name)]
    blocks = [f"{name}.{n}" for name in outer for n in range(len(model.get_submodule(name)))]
    return [block for block in blocks if not any(is_in(place, block) for place in boundaries)]


def ids() -> torch.Tensor:
    return torch.randint(3, 40, (2, 8))


def labelled() -> dict[str, Any]:
    return {"input_ids": ids(), "labels": ids()}


def positional() -> dict[str, Any]:
    return {"input_ids": ids(), "position_ids": torch.arange(8).repeat(2, 1)}


def masked() -> dict[str, Any]:
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    return {"input_ids": ids(), "attention_mask": mask}


def classified() -> dict[str, Any]:
    return {"input_ids": ids(), "labels": torch.tensor([0, 1])}


def pixels(side: int = 32, channels: int = 3) -> torch.Tensor:
    return torch.randn(2, channels, side, side)


def pictured() -> dict[str, Any]:
    return {"pixel_values": pixels(), "labels": torch.tensor([0, 1])}


def seen(tokens: int, *shape: int, **more: Any) -> Callable[[], dict[str, Any]]:
    """Texts with so many tokens of an image each, and the images."""

    def arguments() -> dict[str, Any]:
        given = torch.randint(3, 39, (2, 16))
        given[:, 2 : 2 + tokens] = 39
        known = {"input_ids": given, "attention_mask": torch.ones_like(given), **more}
        return {**known, "labels": given.clone(), "pixel_values": torch.randn(2, *shape)}

    return arguments


_TEXT = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = _TEXT | {"num_key_value_heads": 2}
_SEEN = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 32,
    "patch_size": 8,
}
_TWO_SIDED = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_LEVELS = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}


def hugging_face(
    model: str, arguments: Callable[[], dict[str, Any]], config: str = "", **settings: Any
) -> Published:
    """A model of transformers. config: its configuration's class, if not named like it."""

    def make() -> nn.Module:
        import transformers

        kind = model.split("For")[0].removesuffix("LMHeadModel").removesuffix("Model")
        made = getattr(transformers, config or f"{kind}Config")(**settings)
        return getattr(transformers, model)(made)  # type: ignore[no-any-return]

    return Published(make=make, arguments=arguments)


def diffuser(model: str, arguments: Callable[[], dict[str, Any]], **settings: Any) -> Published:
    """A model of diffusers."""

    def make() -> nn.Module:
        import diffusers

        return getattr(diffusers, model)(**settings)  # type: ignore[no-any-return]

    return Published(make=make, arguments=arguments)


_GPT2 = {"vocab_size": 40, "n_embd": 16, "n_layer": 4, "n_head": 2, "n_positions": 32}
_GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
_IMAGES = {
    **{"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "image_size": 28, "patch_size": 14},
}
_CLIP = {"model_type": "clip_vision_model", "projection_dim": 16, **_IMAGES}
_LLAMA = {"model_type": "llama", **_GROUPED}
_BLOCKS = {"layers_per_block": 1, "block_out_channels": (8, 16), "norm_num_groups": 4}

ZOO = {
    "gpt2": hugging_face("GPT2LMHeadModel", labelled, **_GPT2),
    "gpt2, positions": hugging_face("GPT2LMHeadModel", positional, **_GPT2),
    "gpt2, a mask": hugging_face("GPT2LMHeadModel", masked, **_GPT2),
    "llama": hugging_face("LlamaForCausalLM", labelled, **_GROUPED),
    "llama, a mask": hugging_face("LlamaForCausalLM", masked, **_GROUPED),
    "mistral": hugging_face("MistralForCausalLM", labelled, **_GROUPED),
    "qwen2": hugging_face("Qwen2ForCausalLM", labelled, **_GROUPED),
    "qwen3": hugging_face("Qwen3ForCausalLM", labelled, head_dim=8, **_GROUPED),
    "mixtral": hugging_face(
        "MixtralForCausalLM",
        labelled,
        num_local_experts=4,
        num_experts_per_tok=2,
        experts_implementation="eager",  # the other ones have no float64
        **_GROUPED,
    ),
    "gemma2": hugging_face(
        "Gemma2ForCausalLM", labelled, head_dim=8, query_pre_attn_scalar=8, **_GROUPED
    ),
    "phi3": hugging_face("Phi3ForCausalLM", labelled, **_GROUPED),
    "gpt_neox": hugging_face("GPTNeoXForCausalLM", labelled, **_TEXT),
    "opt": hugging_face(
        "OPTForCausalLM",
        labelled,
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        ffn_dim=32,
        max_position_embeddings=32,
        word_embed_proj_dim=16,
        pad_token_id=0,
    ),
    "bloom": hugging_face(
        "BloomForCausalLM", labelled, vocab_size=40, hidden_size=16, n_layer=4, n_head=2
    ),
    "bert": hugging_face("BertForSequenceClassification", classified, **_TEXT),
    "roberta": hugging_face("RobertaForMaskedLM", labelled, **{**_TEXT, "pad_token_id": 1}),
    "distilbert": hugging_face(
        "DistilBertForSequenceClassification",
        classified,
        vocab_size=40,
        dim=16,
        n_layers=4,
        n_heads=2,
        hidden_dim=32,
        max_position_embeddings=32,
    ),
    "electra": hugging_face(
        "ElectraForSequenceClassification", classified, embedding_size=16, **_TEXT
    ),
    "deberta": hugging_face(
        "DebertaV2ForSequenceClassification", lambda: {"input_ids": ids()}, **_TEXT
    ),
    "t5": hugging_face(
        "T5ForConditionalGeneration",
        labelled,
        vocab_size=40,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
    ),
    "bart": hugging_face(
        "BartForConditionalGeneration",
        labelled,
        max_position_embeddings=32,
        **_TWO_SIDED,
    ),
    "whisper": hugging_face(
        "WhisperForConditionalGeneration",
        lambda: {"input_features": torch.randn(2, 8, 20), "labels": ids()},
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=16,
        **_TWO_SIDED,
    ),
    "vit": hugging_face("ViTForImageClassification", pictured, num_labels=3, **_SEEN),
    "deit": hugging_face("DeiTForImageClassification", pictured, num_labels=3, **_SEEN),
    "swin": hugging_face(
        "SwinForImageClassification",
        pictured,
        image_size=32,
        patch_size=2,
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 2],
        window_size=4,
        num_labels=3,
    ),
    "convnext": hugging_face("ConvNextForImageClassification", pictured, num_labels=3, **_LEVELS),
    "resnet": hugging_face(
        "ResNetForImageClassification",
        pictured,
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[2, 2],
        num_labels=3,
    ),
    "segformer": hugging_face(
        "SegformerForSemanticSegmentation",
        lambda: {"pixel_values": pixels(64), "labels": torch.randint(0, 3, (2, 64, 64))},
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        num_labels=3,
        **_LEVELS,
    ),
    "clip": hugging_face(
        "CLIPModel",
        lambda: {"input_ids": ids(), "pixel_values": pixels()},
        text_config=_TEXT | {"num_hidden_layers": 2},
        vision_config=_SEEN | {"num_hidden_layers": 2},
        projection_dim=16,
    ),
    "wav2vec2": hugging_face(
        "Wav2Vec2ForSequenceClassification",
        lambda: {"input_values": torch.randn(2, 400), "labels": torch.tensor([0, 1])},
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(8, 8),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        classifier_proj_size=8,
        num_labels=3,
        layerdrop=0.0,  # layers that are left out give fewer hidden states
    ),
    "longformer": hugging_face(
        "LongformerForMaskedLM",
        labelled,
        **{**_TEXT, "attention_window": 4, "max_position_embeddings": 64, "pad_token_id": 0},
    ),
    "llava": hugging_face(
        "LlavaForConditionalGeneration",
        seen(4, 3, 28, 28),
        vision_config=_CLIP,
        text_config=_LLAMA,
        image_token_id=39,
        vision_feature_layer=-1,
    ),
    "llava next": hugging_face(
        "LlavaNextForConditionalGeneration",
        seen(10, 2, 3, 28, 28, image_sizes=torch.full((2, 2), 28)),
        vision_config=_CLIP,
        text_config=_LLAMA,
        image_token_id=39,
        image_grid_pinpoints=[[28, 28]],
        vision_feature_layer=-1,
    ),
    "idefics3": hugging_face(
        "Idefics3ForConditionalGeneration",
        seen(1, 1, 3, 28, 28),
        vision_config=_IMAGES,
        text_config=_LLAMA,
        image_token_id=39,
        scale_factor=2,
    ),
    "paligemma": hugging_face(
        "PaliGemmaForConditionalGeneration",
        seen(4, 3, 28, 28, token_type_ids=torch.zeros(2, 16, dtype=torch.long)),
        vision_config={
            **_IMAGES,
            **{"model_type": "siglip_vision_model", "vision_use_head": False},
        },
        text_config={**_GROUPED, "model_type": "gemma", "head_dim": 8},
        image_token_index=39,
        projection_dim=16,
    ),
    "mamba": hugging_face(
        "MambaForCausalLM",
        labelled,
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=4,
        state_size=4,
    ),
    "unet 2d": diffuser(
        "UNet2DModel",
        lambda: {"sample": pixels(16), "timestep": torch.tensor([3, 7])},
        sample_size=16,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
        **_BLOCKS,
    ),
    "unet 2d with a condition": diffuser(
        "UNet2DConditionModel",
        lambda: {
            "sample": pixels(8, 4),
            "timestep": torch.tensor([3, 7]),
            "encoder_hidden_states": torch.randn(2, 5, 16),
        },
        sample_size=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
        **_BLOCKS,
    ),
    "dit": diffuser(
        "DiTTransformer2DModel",
        lambda: {
            "hidden_states": pixels(8, 4),
            "timestep": torch.tensor([3, 7]),
            "class_labels": torch.tensor([1, 2]),
        },
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=4,
        num_layers=3,
        sample_size=8,
        patch_size=2,
        norm_num_groups=4,
        num_embeds_ada_norm=10,
    ),
    "autoencoder": diffuser(
        "AutoencoderKL",
        lambda: {"sample": pixels(16)},
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        **_BLOCKS,
    ),
}
