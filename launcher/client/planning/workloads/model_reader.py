"""The memory fields of a model, in bytes, as `launcher plan measure --task` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.planning.plans.parallel_strategy import ModelFigures
from launcher.errors import FieldPath, Problem
from launcher.shared import PRECISIONS, Activations, Footprint, did_you_mean, shown

_NEEDED = ("parameters", "gradients", "optimizer")
_BYTES = (*_NEEDED, "largest_block", "outside_blocks")
#: By name in the file: whether forward passes are in 16 bits, and whether blocks are recomputed.
SETTINGS = {
    "full": (False, False),
    "bf16": (True, False),
    "recomputed": (False, True),
    "bf16_recomputed": (True, True),
}
_ACTIVATIONS = ("sample", "fixed")
_TEXTS = ("blocks", "precision")
_SWITCHES = ("batch_norm", "is_recomputed")
_FIELDS = (*_BYTES, "activations", *_TEXTS, *_SWITCHES)


def read_model(path: FieldPath, value: object) -> tuple[ModelFigures | None, list[Problem]]:
    """Return the figures of a model, or what is wrong with them.

    path: of the field. value: a mapping, as docs/guides/planning.md describes it.
    """
    if not isinstance(value, Mapping):
        what = f"{shown(value)} does not describe a model"
        return None, [Problem(path=path, what=what, fix=f"write {', '.join(_NEEDED)}, in bytes")]
    problems = list(_problems(path, value))
    return (None, problems) if problems else (_figures(value), [])


def model_fields(figures: ModelFigures) -> dict[str, Any]:
    """Return the fields of a model's figures, as the file has them; unknown ones are absent."""
    model = figures.footprint
    names = {setting: name for name, setting in SETTINGS.items()}
    fields = {
        "parameters": model.parameters,
        "gradients": model.gradients,
        "optimizer": model.states,
        "largest_block": model.largest,
        "outside_blocks": model.rest,
        "activations": {
            names[setting]: {"sample": each.sample, "fixed": max(0, each.fixed)}
            for setting, each in sorted(model.activations.items())
        },
        "blocks": figures.blocks,
        "batch_norm": figures.batch_norm,
        "precision": figures.precision,
        "is_recomputed": figures.recomputed or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _figures(value: Mapping[str, Any]) -> ModelFigures:
    outside = value.get("outside_blocks")
    return ModelFigures(
        footprint=Footprint(
            parameters=int(value["parameters"]),
            gradients=int(value["gradients"]),
            states=int(value["optimizer"]),
            largest=int(value.get("largest_block") or 0),
            # Without blocks, shards gather the whole model at once.
            rest=int(value["parameters"] if outside is None else outside),
            activations={
                SETTINGS[name]: Activations(
                    sample=int(each["sample"]), fixed=int(each.get("fixed") or 0)
                )
                for name, each in (value.get("activations") or {}).items()
            },
        ),
        blocks=value.get("blocks"),
        batch_norm=value.get("batch_norm"),
        precision=value.get("precision"),
        recomputed=bool(value.get("is_recomputed")),
    )


def _problems(path: FieldPath, value: Mapping[Any, Any]) -> Iterator[Problem]:
    yield from _unknown(path, value, _FIELDS)
    for name in _NEEDED:
        if value.get(name) is None:
            yield Problem(
                path=(*path, name), what=f'"{name}" is missing', fix=f'write "{name}: ..."'
            )
    yield from _byte_problems(path, value, _BYTES)
    yield from _activation_problems((*path, "activations"), value.get("activations") or {})
    for name in _TEXTS:
        if value.get(name) is not None and not isinstance(value[name], str):
            yield _wrong((*path, name), value[name], "text", "the name of a module list, or bf16")
    if isinstance(precision := value.get("precision"), str) and precision not in PRECISIONS:
        yield _wrong((*path, "precision"), precision, "a precision", " or ".join(PRECISIONS))
    for name in _SWITCHES:
        if value.get(name) is not None and not isinstance(value[name], bool):
            yield _wrong((*path, name), value[name], "true or false", "one of them")


def _activation_problems(path: FieldPath, value: object) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, "a mapping", "{bf16: {sample: 2e8, fixed: 0}}")
        return
    yield from _unknown(path, value, tuple(SETTINGS))
    for name, each in value.items():
        if not isinstance(each, Mapping) or each.get("sample") is None:
            yield _wrong((*path, str(name)), each, "bytes of a sample", "{sample: 2e8}")
            continue
        yield from _unknown((*path, str(name)), each, _ACTIVATIONS)
        yield from _byte_problems((*path, str(name)), each, _ACTIVATIONS)


def _unknown(
    path: FieldPath, value: Mapping[Any, Any], known: tuple[str, ...]
) -> Iterator[Problem]:
    for name in (each for each in value if each not in known):
        near = did_you_mean(str(name), known)
        fix = f'did you mean "{near}"?' if near else f"known fields: {', '.join(known)}"
        yield Problem(path=(*path, str(name)), what=f"{shown(name)} is not a field here", fix=fix)


def _byte_problems(
    path: FieldPath, value: Mapping[Any, Any], names: tuple[str, ...]
) -> Iterator[Problem]:
    for name in names:
        count = value.get(name)
        if count is not None and (isinstance(count, bool) or not _is_count(count)):
            yield _wrong((*path, name), count, "a number of bytes", "a whole number, 0 or more")


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and value >= 0 and float(value).is_integer()


def _wrong(path: FieldPath, value: object, kind: str, fix: str) -> Problem:
    return Problem(path=path, what=f"{shown(value)} is not {kind}", fix=f"write {fix}")
