"""PyYAML's loader with limits, so that no job file takes a second or a hundred megabytes to refuse.

Scalars follow YAML 1.2's core schema, not PyYAML's 1.1: `1e-3` is a number; `on`, `no` and
`2024-01-31` are strings. Source: https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from launcher.shared import open_readable

#: Bytes of a job file: its largest legal parts are 100 hyperparameters of 2,500 characters.
LARGEST_TEXT = 512 << 10
#: Levels of a document, and its values, those that aliases repeat included.
DEEPEST, MOST_VALUES = 50, 20_000
#: Characters of a number. 64 bits have 20 digits, and a float 17.
_LONGEST_NUMBER = 100
_FLOAT = (
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_CORE_SCHEMA = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+",
    "float": _FLOAT,
}
_PATTERNS = {
    f"tag:yaml.org,2002:{tag}": re.compile(rf"(?:{pattern})\Z")
    for tag, pattern in _CORE_SCHEMA.items()
}
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_TEXT = "tag:yaml.org,2002:str"
#: PyYAML's format: resolvers by first character; None matches any character.
CORE_RESOLVERS: Any = {None: list(_PATTERNS.items())}


class LimitExceeded(yaml.MarkedYAMLError):
    """A document is larger or deeper than any job is."""


class BoundedLoader(yaml.SafeLoader):
    """A loader that stops at the first node beyond the limits.

    Raises LimitExceeded, and yaml.YAMLError for text that is not YAML.
    """

    yaml_implicit_resolvers = CORE_RESOLVERS

    def __init__(self, text: str) -> None:
        if len(text) > LARGEST_TEXT:
            raise too_large()
        super().__init__(text)
        self._depth = 0
        self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node and those inside it."""
        self.count_value(self._here())
        self._depth += 1
        if self._depth > DEEPEST:
            mark = self._here()
            raise LimitExceeded(problem=f"more than {DEEPEST} levels", problem_mark=mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _here(self) -> yaml.Mark:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call] # PyYAML's stubs have no types
        mark: yaml.Mark = event.start_mark
        return mark

    def count_value(self, mark: yaml.Mark) -> None:
        """Count a value of the document; raise LimitExceeded for one too many."""
        self._values += 1
        if self._values > MOST_VALUES:
            raise LimitExceeded(
                problem=f"more than {MOST_VALUES:,} values, those of aliases included",
                problem_mark=mark,
            )

    def scalar_problem(self, node: yaml.ScalarNode) -> str | None:
        """Return why a scalar has no plain value; None if it has one."""
        if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            return f"a number of {len(node.value):,} characters"
        pattern = _PATTERNS.get(node.tag)
        if pattern is None:
            return None if node.tag == _TEXT else f"{node.tag} is not a plain value"
        return None if pattern.match(node.value) else f"{node.value[:40]!r} is no {node.tag}"


class BoundedYaml11Loader(BoundedLoader):
    """The same for files of programs that read YAML 1.1, as PyYAML does."""

    yaml_implicit_resolvers = yaml.SafeLoader.yaml_implicit_resolvers

    def get_single_node(self) -> yaml.Node | None:
        """Compose the document, and count the values that its aliases repeat."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            self._count_inside(node, ())
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a node's value; raise ConstructorError for a scalar that is no such value."""
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, ValueError) as error:  # PyYAML checks no scalar
            what = f"{str(node.value)[:40]!r} is no {node.tag}"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from error

    def _count_inside(self, node: yaml.Node, around: tuple[yaml.Node, ...]) -> None:
        self.count_value(node.start_mark)
        if node in around:
            raise LimitExceeded(problem="a value contains itself", problem_mark=node.start_mark)
        if isinstance(node, yaml.CollectionNode):
            for part in node.value:
                for each in part if isinstance(part, tuple) else (part,):
                    self._count_inside(each, (*around, node))


def read_bounded(path: Path) -> str:
    """Return the text of a file.

    Raises LimitExceeded for one that is too large, OSError, and UnicodeDecodeError.
    """
    with open_readable(path) as file:
        content = file.read(LARGEST_TEXT + 1)
    if len(content) > LARGEST_TEXT:
        raise too_large()
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def too_large() -> LimitExceeded:
    """Return the error for a text that is too large."""
    return LimitExceeded(problem=f"more than {LARGEST_TEXT >> 10} KiB, which no job file has")
