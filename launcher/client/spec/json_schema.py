"""The JSON schema of a job file, derived from the declared types, as the reader is.

Editors complete and check a job file by it. It covers fields, types and words; the rules, which
compare fields with each other and with files, are applied by `launcher check`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.client import catalogue
from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.distributions.registry import distributions
from launcher.client.spec.job_fields import field_doc
from launcher.client.spec.job_parts import (
    LOCAL_TYPES,
    FileSystemInput,
    MetricDefinition,
    TrainingInput,
)
from launcher.client.spec.job_spec import JobSpec
from launcher.client.spec.yaml_values import METRIC_KEYS, is_required, plain_values, written_fields
from launcher.shared import (
    COMPRESSIONS,
    OBJECTIVES,
    PLACEMENTS,
    PRECISIONS,
    RETRY_CAUSES,
    SCHEDULES,
)

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}
_INPUT_MODES = ("File", "FastFile", "Pipe")
#: The words that are allowed for a text, by class and field; None among them is its absence.
_WORDS: Mapping[str, Mapping[str, Sequence[str | None]]] = {
    "JobSpec": {"input_mode": _INPUT_MODES},
    "TrainingInput": {
        "distribution": ("FullyReplicated", "ShardedByS3Key"),
        "compression": (None, "None", "Gzip"),
        "record_wrapping": (None, "None", "RecordIO"),
        "s3_data_type": ("S3Prefix", "ManifestFile", "AugmentedManifestFile"),
        "input_mode": (None, *_INPUT_MODES),
    },
    "DataParallel": {"compression": COMPRESSIONS, "precision": PRECISIONS},
    "ModelParallel": {
        "optimize": OBJECTIVES,
        "placement": PLACEMENTS,
        "precision": PRECISIONS,
        "schedule": SCHEDULES,
    },
}


def job_schema() -> Schema:
    """Return the JSON schema (draft 2020-12) of a job file.

    It knows the distributions of every package that is installed here.
    """
    definitions: Schema = {}
    schema = _object(JobSpec, definitions)
    return {"$schema": DIALECT, "title": "Launcher job", **schema, "$defs": definitions}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(job_schema(), indent=2) + "\n"


def _schema(declared: Any, definitions: Schema) -> Schema:
    """Return the schema of a declared type; that of a class goes to the definitions."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if declared is Any:
        return {}
    if origin in (typing.Union, types.UnionType):
        return _choice(arguments, definitions)
    if origin is Sequence:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is not None:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if dataclasses.is_dataclass(declared):
        return _definition(declared, definitions)
    if issubclass(declared, enum.Enum):
        return {"enum": [member.value for member in declared]}
    return {"type": _SCALARS[declared]}


def _choice(choices: tuple[Any, ...], definitions: Schema) -> Schema:
    """Return the schema of X in "X | None", of a distribution, or of an input."""
    if Distribution in choices:
        return {"anyOf": [_distribution(kind, definitions) for kind in distributions()]}
    if FileSystemInput in choices:
        objects = {
            "if": {"type": "object", "required": ["file_system_id"]},
            "then": _definition(FileSystemInput, definitions),
            "else": _definition(TrainingInput, definitions),
        }
        return {"anyOf": [{"type": "string"}, {"type": "object", **objects}]}
    if typing.get_origin(choices[-1]) is Mapping:  # a cause of restarts
        codes = {"exit": _schema(Sequence[int], definitions)}
        of_code = {"type": "object", "properties": codes, "additionalProperties": False}
        return {"anyOf": [{"enum": list(RETRY_CAUSES)}, {**of_code, "required": ["exit"]}]}
    return _schema(choices[0], definitions)


def _distribution(kind: type[Distribution], definitions: Schema) -> Schema:
    return kind.schema(_definition(kind, definitions) if kind.word else {})


def _definition(declared: Any, definitions: Schema) -> Schema:
    """Return a reference to the definition of a class, which is added at its first use."""
    name = declared.__name__
    if name not in definitions:
        definitions[name] = {}  # its place, in the order of first use
        definitions[name] = _object(declared, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _object(declared: Any, definitions: Schema) -> Schema:
    hints = typing.get_type_hints(declared)
    notes = field_notes(declared)
    properties = {
        part.name: _property(declared, part, _schema(hints[part.name], definitions), notes)
        for part in written_fields(declared)
    }
    required = [part.name for part in written_fields(declared) if is_required(part)]
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if declared is MetricDefinition:
        return _with_keys_of_aws(schema, required)
    return {**schema, "required": required} if required else schema


def _property(
    declared: Any, part: dataclasses.Field[Any], schema: Schema, notes: Mapping[str, str]
) -> Schema:
    """Return the schema of a field, which may be null, as if left out, unless it is required."""
    words = _WORDS.get(declared.__name__, {}).get(part.name)
    if words is not None:
        schema = {"enum": [word for word in words if word is not None]}
    if part.name in ("instance_type", "alternatives"):
        schema = _with_instance_types(schema)
    if not is_required(part):
        schema = _or_null(schema)
    if part.default not in (dataclasses.MISSING, None, (), ""):
        schema = {**schema, "default": plain_values(part.default)}
    return {**schema, "description": notes[part.name]} if part.name in notes else schema


def _with_instance_types(schema: Schema) -> Schema:
    """Let editors offer the known instance types; others are allowed."""
    if "items" in schema:
        return {**schema, "items": _with_instance_types(schema["items"])}
    return {**schema, "examples": [*LOCAL_TYPES, *catalogue.instance_types()]}


def _or_null(schema: Schema) -> Schema:
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]} if schema else schema


def _with_keys_of_aws(schema: Schema, required: Sequence[str]) -> Schema:
    """Allow AWS's own keys of a metric definition in place of the fields."""
    fields = schema["properties"]
    by_aws = {key: fields[name] for key, name in METRIC_KEYS.items()}
    return {
        **schema,
        "properties": {**fields, **by_aws},
        "anyOf": [{"required": list(required)}, {"required": list(METRIC_KEYS)}],
    }


#: The start of a paragraph about one or more fields, as "subnets, role: ...".
_START = re.compile(r"(?P<names>[a-z][a-z0-9_]*(?:, [a-z][a-z0-9_]*)*): (?P<text>.*)")


def field_notes(declared: Any) -> dict[str, str]:
    """Return the notes on a dataclass's fields, by field; a field may have none."""
    parts = dataclasses.fields(declared)
    known = {part.name for part in parts}
    notes = {part.name: field_doc(part) for part in parts if "doc" in part.metadata}
    current: list[str] = []
    for line in inspect.cleandoc(declared.__doc__ or "").splitlines():
        start = _START.match(line)
        if start and set(names := start["names"].split(", ")) <= known:
            current = names
            notes.update(dict.fromkeys(names, start["text"]))
        elif line.startswith(" ") and current:
            notes.update({name: f"{notes[name]} {line.strip()}" for name in current})
        else:
            current = []
    return notes
