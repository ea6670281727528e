"""Checks of a request against a model's shapes: types, required and unknown fields, limits.

botocore itself checks only types, required and unknown fields, and minima.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from launcher.client.request.validation.violations import Violation, constraint_message, shown
from launcher.errors import FieldPath, dotted
from launcher.shared import choice_fix, did_you_mean

if TYPE_CHECKING:
    from botocore.model import Shape


#: For each type of a model: the Python types that represent it, and its name in messages.
_TYPES: Mapping[str, tuple[Any, str]] = {
    "structure": (Mapping, "a mapping"),
    "map": (Mapping, "a mapping"),
    "list": ((list, tuple), "a list"),
    "string": (str, "a text"),
    "integer": (int, "an integer"),
    "long": (int, "an integer"),
    "float": ((int, float), "a number"),
    "double": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
}
_NUMBERS = frozenset({"integer", "long", "float", "double"})
#: How to write a text that must match a pattern, by the name of its shape.
_FORMS: Mapping[str, str] = {
    "ArnOrName": "write its name, or arn:aws:sagemaker:REGION:ACCOUNT:algorithm/NAME",
    "ChannelName": "use letters, digits, dots, - and _",
    "ExperimentEntityName": "use letters, digits and hyphens, without a hyphen at either end",
    "FileSystemId": "write fs-0123456789abcdef0",
    "KmsKeyId": "write its id, its ARN, or alias/NAME",
    "RoleArn": "write arn:aws:iam::123456789012:role/NAME",
    "S3Uri": "write s3://bucket/prefix",
    "SecurityGroupId": "copy the id from the VPC",
    "SubnetId": "copy the id from the VPC",
    "TagKey": "use letters, digits, spaces and . : / = + - @ _",
    "TagValue": "use letters, digits, spaces and . : / = + - @ _",
    "TrainingEnvironmentKey": "use letters, digits and _, and no digit first",
    "TrainingPlanArn": "write arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME",
    "TrainingRepositoryCredentialsProviderArn": "write arn:aws:lambda:REGION:ACCOUNT:function:NAME",
}
#: More about a length or a number that is out of its range.
_MORE: Mapping[str, str] = {
    **_FORMS,
    "HyperParameterValue": "put larger values into a file (quotes of JSON count)",
    "KeepAlivePeriodInSeconds": "6 hours, in seconds",
    "TrainingEnvironmentValue": "put larger values into a file",
}


class WrongType(Violation):
    """A value of the wrong type, which prevents checking the rules between fields."""


class WrongForm(Violation):
    """A text that does not match its pattern."""


class UnknownType(Violation):
    """An instance type that the installed botocore does not know."""


def find_violations_of(shape: Shape, value: object, path: FieldPath = ()) -> Iterator[Violation]:
    """Find everything in a value that its shape does not allow, in the order of the value."""
    expected, word = _TYPES.get(shape.type_name, (object, ""))
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        yield _wrong_type(value, word, path)
        return
    yield from _size_violations(shape, value, path)
    if shape.type_name == "structure":
        yield from _member_violations(shape, value, path)
    elif shape.type_name == "map":
        yield from _entry_violations(shape, value, path)
    elif shape.type_name == "list":
        yield from _item_violations(shape, value, path)
    elif shape.type_name == "string":
        yield from _text_violations(shape, value, path)


def missing(path: FieldPath, fix: str = "") -> Violation:
    """Return the violation for a missing required field."""
    return Violation(
        path=path,
        what=f"{path[-1]} is missing",
        fix=fix or f"write {path[-1]}",
        aws_message=constraint_message(path, None, "Member must not be null"),
    )


def _wrong_type(value: object, word: str, path: FieldPath) -> WrongType:
    return WrongType(
        path=path,
        what=f"{shown(value)} is not {word}",
        fix="write a text: encode other values as JSON" if word == "a text" else f"write {word}",
        aws_message=constraint_message(path, value, f"Member must be {word}"),
    )


def _member_violations(shape: Shape, value: Any, path: FieldPath) -> Iterator[Violation]:
    for name in shape.required_members:
        if name not in value:
            yield missing((*path, name), _FORMS.get(shape.members[name].name, ""))
    for name, item in value.items():
        if name in shape.members:
            yield from find_violations_of(shape.members[name], item, (*path, name))
        else:
            yield _unknown_field(shape, name, item, path)


def _unknown_field(shape: Shape, name: object, item: object, path: FieldPath) -> Violation:
    """Report an unknown field; boto3 sends none, so a newer field needs a newer boto3."""
    near = did_you_mean(str(name), shape.members)
    hint = f'did you mean "{near}"? Else ' if near else ""
    here = (*path, str(name))
    return Violation(
        path=here,
        what=f"there is no field {name} here",
        fix=f"{hint}remove it, or upgrade boto3 if AWS has it since: pip install -U boto3",
        aws_message=constraint_message(here, item, "Member must be a field of the request"),
    )


def _entry_violations(shape: Shape, value: Any, path: FieldPath) -> Iterator[Violation]:
    for key, item in value.items():
        here = (*path, str(key))
        for part, of, each, word in (
            ("Map keys", shape.key, key, "the name"),
            ("Map value", shape.value, item, path[-1]),
        ):
            if any(find_violations_of(of, each, here)):  # few are, and a name is slow to show
                for found in find_violations_of(of, each, (*path, f"{word} {shown(key)}")):
                    yield _of_container(found, of, value, path, part, here)


def _item_violations(shape: Shape, value: Any, path: FieldPath) -> Iterator[Violation]:
    for index, item in enumerate(value):
        for found in find_violations_of(shape.member, item, (*path, index)):
            if shape.member.type_name == "structure":
                yield found
            else:
                yield _of_container(found, shape.member, value, path, "Member", found.path)


def _of_container(
    found: Violation, shape: Shape, value: object, path: FieldPath, part: str, entry: FieldPath
) -> Violation:
    """Reword a violation of an entry as AWS does, with the whole list or map instead."""
    constraint = f"{part} must satisfy constraint: [{', '.join(_constraints(shape))}]"
    message = constraint_message(path, value, constraint)
    return dataclasses.replace(found, path=entry, where="", aws_message=message)


def _constraints(shape: Shape) -> Iterator[str]:
    word = "value" if shape.type_name in _NUMBERS else "length"
    if (most := shape.metadata.get("max")) is not None:
        yield f"Member must have {word} less than or equal to {most}"
    if (least := shape.metadata.get("min")) is not None:
        yield f"Member must have {word} greater than or equal to {least}"
    if pattern := shape.metadata.get("pattern"):
        yield f"Member must satisfy regular expression pattern: {pattern}"
    if enum := getattr(shape, "enum", None):
        yield f"Member must satisfy enum value set: [{', '.join(enum)}]"


def _size_violations(shape: Shape, value: Any, path: FieldPath) -> Iterator[Violation]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is None and most is None:
        return
    size = value if shape.type_name in _NUMBERS else len(value)
    if most is not None and size > most:
        yield _wrong_size(shape, value, path, f"less than or equal to {most}")
    if least is not None and size < least:
        yield _wrong_size(shape, value, path, f"greater than or equal to {least}")


def _wrong_size(shape: Shape, value: Any, path: FieldPath, limit: str) -> Violation:
    is_number = shape.type_name in _NUMBERS
    unit = "characters" if shape.type_name == "string" else "entries"
    name = dotted(path[-2:] if isinstance(path[-1], int) else path[-1:])
    return _broken(
        path,
        value,
        what=f"{name} is {value}" if is_number else f"{name} has {len(value)} {unit}",
        fix=_range_of(shape),
        constraint=f"Member must have {'value' if is_number else 'length'} {limit}",
    )


def _range_of(shape: Shape) -> str:
    least, most = shape.metadata.get("min", 0), shape.metadata.get("max")
    if most is None:
        return f"use {least} or more"
    limit = f"use {least} to {most}" if least else f"use {most} at most"
    return f"{limit}; {more}" if (more := _MORE.get(shape.name)) else limit


def _text_violations(shape: Shape, value: str, path: FieldPath) -> Iterator[Violation]:
    pattern = shape.metadata.get("pattern")
    readable = compiled(pattern) if pattern else None
    if readable and not readable.fullmatch(value):
        form = _FORMS.get(shape.name)
        what = f"{shown(value)} " + ("has the wrong form" if form else f"does not match {pattern}")
        fix = form or "write a value that the pattern matches as a whole"
        constraint = f"Member must satisfy regular expression pattern: {pattern}"
        message = constraint_message(path, value, constraint)
        yield WrongForm(path=path, what=what, fix=fix, aws_message=message)
    if shape.enum and value not in shape.enum:
        yield _unknown_word(shape, value, path)


def _unknown_word(shape: Shape, value: str, path: FieldPath) -> Violation:
    """Report an unknown enum value; a new instance type is a warning, as boto3 may be older."""
    constraint = f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
    if not shape.name.endswith("InstanceType"):
        what = f"{shown(value)} is not a known {path[-1]}"
        return _broken(path, value, what, choice_fix(value, shape.enum), constraint)
    near = did_you_mean(value, shape.enum)
    return UnknownType(
        path=path,
        what=f"{shown(value)} is not a {path[-1]} that botocore {_version()} knows",
        fix=f'did you mean "{near}"?' if near else "write a type of SageMaker: ml.g5.xlarge",
        aws_message=constraint_message(path, value, constraint),
        is_warning=value.startswith("ml."),
    )


def _version() -> str:
    """Return the version of botocore that provides the model."""
    import botocore

    return str(botocore.__version__)


def _broken(path: FieldPath, value: object, what: str, fix: str, constraint: str) -> Violation:
    message = constraint_message(path, value, constraint)
    return Violation(path=path, what=what, fix=fix, aws_message=message)


_DOT = "[^\n\r\x85\u2028\u2029]"
#: \w in Python's Unicode mode is letters, numbers and the underscore, which TagKey allows anyway.
_CATEGORIES = {
    "Alnum": "a-zA-Z0-9",
    "L": r"\w",
    "N": r"\w",
    "Z": " \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
}
#: A category, another escape, a whole [...], or a dot outside of brackets.
_PART = re.compile(r"\\p\{\w+\}|\\.|\[(?:\\.|[^\]])*\]|\.")
_CATEGORY = re.compile(r"\\p\{(\w+)\}")


@functools.cache
def compiled(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern for `fullmatch`; return None if Python cannot (the service then checks it).

    >>> bool(compiled("[a-z]+").fullmatch("abc"))
    True
    """
    mode = re.UNICODE if r"\p{L}" in pattern else re.ASCII
    try:
        return re.compile(_PART.sub(_translated, pattern), mode)
    except (re.error, KeyError):
        return None


def _translated(part: re.Match[str]) -> str:
    text = part.group()
    if text == ".":
        return _DOT
    if text.startswith(r"\p"):
        return f"[{_category(part)}]"
    return _CATEGORY.sub(_category, text)


def _category(part: re.Match[str]) -> str:
    name = part.group(1) if part.re is _CATEGORY else part.group()[3:-1]
    return _CATEGORIES[name]
