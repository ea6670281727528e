"""For every limit of botocore's model a value just inside and one just outside, in a request.

Generated from the model that is installed, so that each limit has its pair, also after an upgrade:
whoever adds a shape with a new pattern to it finds that the pattern needs a line in SAMPLES.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from request_mutants import ONE_TYPE

from launcher.client.request import input_shape
from launcher.errors import dotted

Path = tuple[Any, ...]

_HUB = "arn:aws:sagemaker:us-east-1:aws:hub-content/Hub/"
_ACCOUNT = "arn:aws:sagemaker:us-east-1:111122223333:"
#: By shape: what a text of any length begins with, is filled up with, and ends with.
SAMPLES = {
    "RoleArn": ("arn:aws:iam::111122223333:role/", "a", ""),
    "S3Uri": ("s3://b/", "a", ""),
    "FileSystemId": ("fs-", "0", ""),
    "TrainingRepositoryCredentialsProviderArn": (
        "arn:aws:lambda:a:111122223333:function:",
        "a",
        "",
    ),
    "TrainingPlanArn": (f"{_ACCOUNT}training-plan/", "a", ""),
    "HubDataSetArn": (f"{_HUB}DataSet/", "a", ""),
    "ServerlessJobBaseModelArn": (f"{_HUB}Model/", "a", ""),
    "SequenceLength": ("", "1", "K"),
    "MlFlowResourceArn": (f"{_ACCOUNT}mlflow-tracking-server/", "a", ""),
    "ModelPackageGroupArn": (f"{_ACCOUNT}model-package-group/", "a", ""),
    "ModelPackageArn": (f"{_ACCOUNT}model-package/", "a", ""),
}
#: Shapes whose pattern allows less than their limit of length does.
SHORTER = {"HubDataSetArn", "ServerlessJobBaseModelArn", "ArnOrName", "SequenceLength"}
#: No text breaks these.
ANYTHING = {r"[\S\s]*"}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One limit at one place: a request that keeps it, and one that does not.

    path: where the violation shows, dotted; says: part of AWS's words for it.
    """

    name: str
    path: str
    says: str
    kept: dict[str, Any]
    broken: dict[str, Any]
    is_warning: bool = False


def pairs() -> Iterator[Pair]:
    """A pair for each limit, every shape at each place where it occurs."""
    yield from _pairs(input_shape(), ())


def _pairs(shape: Any, path: Path) -> Iterator[Pair]:
    yield from _limits(shape, path)
    if shape.type_name == "structure":
        for name in shape.required_members:
            yield _required(shape, name, path)
        for name, member in shape.members.items():
            yield from _pairs(member, (*path, name))
    elif shape.type_name == "list":
        yield from _pairs(shape.member, (*path, 0))
    elif shape.type_name == "map":
        yield from _pairs(shape.value, (*path, sample(shape.key)))
        for pair in _limits(shape.key, ()):
            yield _of_key(pair, shape, path)


def _limits(shape: Any, path: Path) -> Iterator[Pair]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    word = "value" if shape.type_name in ("integer", "long") else "length"
    if most is not None:
        kept = sized(shape, _longest(shape, most))
        says = f"Member must have {word} less than or equal to {most}"
        yield _pair("max", path, says, kept, sized(shape, most + 1))
    if least or (least == 0 and word == "value"):
        says = f"Member must have {word} greater than or equal to {least}"
        yield _pair("min", path, says, sample(shape), sized(shape, least - 1))
    pattern = shape.metadata.get("pattern")
    if pattern and pattern not in ANYTHING:
        says = f"Member must satisfy regular expression pattern: {pattern}"
        yield _pair("pattern", path, says, sample(shape), sample(shape)[:-1] + "\n")
    for enum in [shape.enum] if getattr(shape, "enum", None) else []:
        is_type = shape.name.endswith("InstanceType")
        wrong = "ml.new.large" if is_type else "Wrong"
        says = f"Member must satisfy enum value set: [{', '.join(enum)}]"
        yield _pair("enum", path, says, enum[-1], wrong, is_warning=is_type)


def _pair(
    name: str, path: Path, says: str, kept: Any, broken: Any, *, is_warning: bool = False
) -> Pair:
    return Pair(
        name=f"{dotted(path)} {name}",
        path=dotted(path),
        says=says,
        kept=placed(path, kept) if path else kept,
        broken=placed(path, broken) if path else broken,
        is_warning=is_warning,
    )


def _required(shape: Any, name: str, path: Path) -> Pair:
    whole = sample(shape)
    parts = {part: value for part, value in whole.items() if part != name}
    return Pair(
        name=f"{dotted((*path, name))} required",
        path=dotted((*path, name)),
        says="Member must not be null",
        kept=placed(path, whole),
        broken=placed(path, parts) if path else {k: v for k, v in ONE_TYPE.items() if k != name},
    )


def _of_key(pair: Pair, shape: Any, path: Path) -> Pair:
    """The keys of a map stand in its place."""
    value = sample(shape.value)
    kept, broken = str(pair.kept), str(pair.broken)
    return Pair(
        name=f"{dotted(path)} key {pair.name.split()[-1]}",
        path=dotted((*path, broken)),
        says=pair.says,
        kept=placed(path, {kept: value}),
        broken=placed(path, {broken: value}),
    )


def placed(path: Path, value: Any) -> dict[str, Any]:
    """A request with a value at a place, and all that the model requires around it."""
    if not path:
        return {**ONE_TYPE, **value}
    request: dict[str, Any] = dict(ONE_TYPE)
    request[path[0]] = _around(input_shape().members[path[0]], path[1:], value)
    return request


def _around(shape: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    if shape.type_name == "structure":
        inner = _around(shape.members[path[0]], path[1:], value)
        return {**sample(shape), path[0]: inner}
    if shape.type_name == "list":
        return [_around(shape.member, path[1:], value)]
    return {path[0]: _around(shape.value, path[1:], value)}


def sample(shape: Any) -> Any:
    """The smallest legal value of a shape, or nearly so."""
    if shape.type_name == "structure":
        return {name: sample(shape.members[name]) for name in shape.required_members}
    if shape.type_name == "boolean":
        return True
    if getattr(shape, "enum", None):
        return shape.enum[0]
    if shape.type_name == "string":
        start, fill, end = SAMPLES.get(shape.name, ("", "a", ""))
        return sized(shape, max(shape.metadata.get("min", 0), len(start + fill + end)))
    return sized(shape, shape.metadata.get("min", 1))


def sized(shape: Any, size: int) -> Any:
    """A value of that number, or of that length."""
    if shape.type_name in ("integer", "long"):
        return size
    if shape.type_name == "list":
        return [sample(shape.member)] * size
    if shape.type_name == "map":
        return {f"{sample(shape.key)}{index}": sample(shape.value) for index in range(size)}
    start, fill, end = SAMPLES.get(shape.name, ("", "a", ""))
    return (start + fill * (size - len(start + end)) + end)[:size]


def _longest(shape: Any, most: int) -> int:
    return len(sample(shape)) if shape.name in SHORTER else most
