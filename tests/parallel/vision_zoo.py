"""Models of torchvision and timm with random weights, and two small images for each."""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from model_zoo import Published
from torch import nn

for operator in ("nms", "qnms"):  # that the build of torchvision for a GPU wants to find
    if not hasattr(torch.ops.torchvision, operator):
        torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")

import timm  # noqa: E402 - torchvision needs the operators
import torchvision.models  # noqa: E402
from torchvision.models.convnext import CNBlockConfig  # noqa: E402

SEED = 26
#: What `draw` draws from timm 1.0.31.
TIMM = (
    "rdnet_tiny",
    "test_vit_relpos",
    "xcit_tiny_24_p16_384",
    "inception_v3",
    "nest_tiny_jx",
    "rexnet_100",
    "twins_svt_small",
    "lcnetv2_small",
    "ghostnet_050",
    "coatnet_nano_rw_224",
    "repvit_m1",
    "starnet_s050",
    "gcvit_xxtiny",
    "mobilenetv2_035",
    "efficientvim_m1_dist",
    "halonet_h1",
    "resnetv2_18d",
    "csatv2",
    "dla60_res2net",
    "lowformer_b0",
    "edgenext_xx_small",
    "sedarknet21",
    "vovnet39a",
    "regnetz_b16_evos",
    "pit_ti_distilled_224",
    "hgnetv2_b0",
    "cpubone_nano",
    "coat_tiny",
    "convmixer_768_32",
    "crossvit_9_dagger_240",
    "hardcorenas_b",
    "legacy_seresnet18",
    "efficientvit_b1",
    "inception_next_atto",
    "mobilenetv3_small_075",
    "shvit_s1",
    "resnest14d",
    "cspnext_tiny",
    "levit_conv_128s",
    "mvitv2_tiny",
)
_TOO_LARGE = {"halonet_h1"}  # more than 8 GB of activations for two images of float64, in a rank
_LARGEST = 25_000_000  # parameters
_TRIED = 5  # models of a family


def draw(count: int = 40, seed: int = SEED) -> tuple[str, ...]:
    """Return the smallest of five models of each drawn family of timm. Takes a minute or two."""
    generator = random.Random(seed)
    families = timm.list_modules()
    generator.shuffle(families)
    found: list[str] = []
    for family in families:
        members = timm.list_models(module=family)
        sizes = {name: _size(name) for name in generator.sample(members, min(_TRIED, len(members)))}
        least = min(sizes, key=sizes.__getitem__)
        if sizes[least] <= _LARGEST:
            found.append(least)
        if len(found) == count:
            break
    return tuple(found)


def _size(name: str) -> int:
    with torch.device("meta"):
        return sum(each.numel() for each in timm.create_model(name).parameters())


# torchvision --------------------------------------------------------------------------------


def _images(side: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"x": torch.randn(2, 3, side, side)}


def _torchvision(model: str, side: int = 64, **settings: Any) -> Published:
    """A model of one of torchvision's families for classification."""

    def make() -> nn.Module:
        made: nn.Module = getattr(torchvision.models, model)(num_classes=5, **settings)
        if model in ("alexnet", "vgg11_bn"):
            _make_smaller(made.classifier)
        return made

    return Published(make=make, arguments=_images(side))


def _make_smaller(classifier: nn.Sequential) -> None:
    """Give the hidden layers 64 features instead of 4,096."""
    first, second, last = (n for n, each in enumerate(classifier) if isinstance(each, nn.Linear))
    classifier[first] = nn.Linear(classifier[first].in_features, 64)
    classifier[second] = nn.Linear(64, 64)
    classifier[last] = nn.Linear(64, 5)


_TORCHVISION = {
    "alexnet": _torchvision("alexnet"),
    "vgg11_bn": _torchvision("vgg11_bn", 32),
    "resnet18": _torchvision("resnet18"),
    "densenet121": _torchvision("densenet121"),
    "squeezenet1_1": _torchvision("squeezenet1_1"),
    "googlenet": _torchvision("googlenet", init_weights=False),
    "inception_v3": _torchvision("inception_v3", 299, init_weights=False),
    "shufflenet_v2_x0_5": _torchvision("shufflenet_v2_x0_5"),
    "mobilenet_v2": _torchvision("mobilenet_v2"),
    "mobilenet_v3_small": _torchvision("mobilenet_v3_small"),
    "mnasnet0_5": _torchvision("mnasnet0_5"),
    "efficientnet_b0": _torchvision("efficientnet_b0"),
    "regnet_y_400mf": _torchvision("regnet_y_400mf"),
    "swin": _torchvision(
        "SwinTransformer",
        patch_size=[4, 4],
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 2],
        window_size=[4, 4],
        stochastic_depth_prob=0.2,
    ),
    "maxvit": _torchvision(
        "MaxVit",
        input_size=(64, 64),
        stem_channels=8,
        partition_size=4,
        block_channels=[8, 16],
        block_layers=[1, 2],
        head_dim=4,
        stochastic_depth_prob=0.2,
    ),
    "convnext": _torchvision(
        "ConvNeXt",
        block_setting=[CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 2)],
        stochastic_depth_prob=0.2,
    ),
    "vit": _torchvision(
        "VisionTransformer",
        32,
        image_size=32,
        patch_size=8,
        num_layers=4,
        num_heads=2,
        hidden_dim=16,
        mlp_dim=32,
        dropout=0.1,
    ),
}

# timm ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Use:
    """How a model of timm is made and called. side: of the smallest images that it takes."""

    settings: dict[str, Any]
    argument: str
    side: int


def _timm(model: str) -> Published:
    """A model of timm, with drop path and for small images if it can have them."""

    def arguments() -> dict[str, Any]:
        use = _use(model)
        return {use.argument: torch.randn(2, 3, use.side, use.side)}

    return Published(make=lambda: _made(model, _use(model).settings), arguments=arguments)


def _made(model: str, settings: dict[str, Any]) -> nn.Module:
    return timm.create_model(model, num_classes=5, **settings)  # type: ignore[no-any-return]


@functools.cache
def _use(model: str) -> _Use:
    for settings in ({"img_size": 64, "drop_path_rate": 0.1}, {"drop_path_rate": 0.1}, {}):
        try:
            made = _made(model, settings).eval()
        except (TypeError, ValueError, AssertionError, RuntimeError):
            continue
        for side in (64, 96, 128, 160, 192, 224, 240, 256, 288, 384):
            with contextlib.suppress(ValueError, AssertionError, RuntimeError), torch.no_grad():
                made(torch.zeros(2, 3, side, side))
                argument = next(iter(inspect.signature(made.forward).parameters))
                return _Use(settings=settings, argument=argument, side=side)
    raise ValueError(f"{model} takes no images")


ZOO = {f"torchvision {name}": each for name, each in _TORCHVISION.items()}
ZOO |= {f"timm {name}": _timm(name) for name in TIMM if name not in _TOO_LARGE}
