"""The files that are derived from the fields of a job: a stub for type checkers, and two pages.

After a change of `launcher/client/spec/job_fields.py`, `UPDATE_GOLDEN=1 python -m pytest
tests/estimator/test_job_fields.py` writes them anew.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import os
import re
import textwrap
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import launcher.client.spec
from launcher import (
    DataParallel,
    Estimator,
    HuggingFace,
    JobSpec,
    ModelParallel,
    PyTorch,
    TensorFlow,
)

ROOT = Path(__file__).parents[2]
STUB = ROOT / "launcher" / "client" / "estimator" / "arguments.pyi"
PAGE = ROOT / "docs" / "jobs.md"
DISTRIBUTIONS = ROOT / "docs" / "reference" / "distributions.md"
FIELDS = {part.name: part for part in dataclasses.fields(JobSpec) if part.name != "where"}
ARGUMENTS = inspect.signature(Estimator).parameters
FRAMEWORKS = [inspect.signature(kind).parameters for kind in (PyTorch, TensorFlow, HuggingFace)]
ATTRIBUTES = [
    name for name in FIELDS if name != "inputs" and not inspect.isfunction(getattr(Estimator, name))
]
#: The first field of each table of the page, and the table's title.
TABLES = {
    "entry_point": "code and machines",
    "image_uri": "image",
    "inputs": "data",
    "max_run": "duration and restarts",
    "role": "identity and network",
    "metric_definitions": "observation",
}
STUB_START = '''\
"""The constructor and attributes of an Estimator; derived by tests/estimator/test_job_fields.py."""

'''


def stub() -> str:
    keywords = [
        name
        for name in ARGUMENTS
        if all(
            name in own and own[name].kind is inspect.Parameter.KEYWORD_ONLY for own in FRAMEWORKS
        )
    ]
    lines = [
        "class FrameworkKeywords(TypedDict, total=False):",
        *(f"    {name}: {ARGUMENTS[name].annotation}" for name in keywords),
        "",
        "class JobArguments(SpecAttributes):",
        *(line for name in ATTRIBUTES for line in _attribute(name)),
        "    def __init__(",
        "        self,",
        *_parameters(),
        "    ) -> None:",
        *_docstring(),
    ]
    return STUB_START + _imports("\n".join(lines)) + "\n".join(lines) + "\n"


def _attribute(name: str) -> Iterator[str]:
    types = f"{FIELDS[name].type}, {ARGUMENTS[name].annotation}"
    whole = f"    {name}: SpecAttribute[{types}]"
    long = [f"    {name}: SpecAttribute[", f"        {types}", "    ]"]
    yield from [whole] if len(whole) <= 100 else long
    yield from _wrapped(f'"""{inspect.getattr_static(Estimator, name).__doc__}"""', "    ")


def _parameters() -> Iterator[str]:
    is_positional = True
    for parameter in ARGUMENTS.values():
        if is_positional and parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            is_positional = False
            yield "        *,"
        default = repr(parameter.default).replace("'", '"')
        yield f"        {parameter.name}: {parameter.annotation} = {default},"


def _docstring() -> Iterator[str]:
    first, *others = inspect.getdoc(Estimator.__init__).splitlines()
    yield f'        """{first}'
    for line in others:
        yield from _wrapped(line, " " * 8, further=" " * 4)
    yield '        """'


def _wrapped(line: str, indent: str, further: str = "") -> list[str]:
    within = indent + line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.strip(), 100, initial_indent=within, subsequent_indent=within + further
    ) or [""]


def _imports(text: str) -> str:
    """Return the imports of the names of the types in a text."""
    found = defaultdict(set, {"launcher.client.estimator.spec_attributes": {"SpecAttributes"}})
    types = re.findall(
        r"^ +\w+: (.*?)(?: = .*)?$", re.sub(r'""".*?"""', "", text, flags=re.S), re.M
    )
    for name in set(re.findall(r"\b[A-Z]\w+", " ".join(types))) - {"None", "False", "True"}:
        found[_home(name)].add(name)
    found["typing"].add("TypedDict")
    homes = sorted(found, key=lambda home: (home.startswith("launcher"), home))
    lines = [_import(home, sorted(found[home])) for home in homes]
    return "".join(lines).replace("from launcher", "\nfrom launcher", 1) + "\n"


def _home(name: str) -> str:
    for module in (collections.abc, typing, launcher.client.spec):
        if hasattr(module, name):
            return module.__name__
    package = "launcher.client.estimator"
    return f"{package}.{'spec_attributes' if name == 'SpecAttribute' else 'sdk_v2_types'}"


def _import(home: str, names: Iterable[str]) -> str:
    line = f"from {home} import {', '.join(names)}\n"
    below = "".join(f"    {name},\n" for name in names)
    return line if len(line) <= 101 else f"from {home} import (\n{below})\n"


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(f"| {TABLES['entry_point']} |")
    end = text.index("\n\nA local run needs")
    return text[:start] + "\n".join(_rows()).strip() + text[end:]


def _rows() -> Iterator[str]:
    for name, part in FIELDS.items():
        if name in TABLES:
            yield from ("", f"| {TABLES[name]} | meaning | default |", "|---|---|---|")
        yield f"| `{name}` | {part.metadata['doc']} | {_shown(part)} |".replace("  |", " |")


def _shown(part: dataclasses.Field) -> str:
    """Return the default of a field as the tables have it."""
    if part.default is False:
        return "no"
    is_none = part.default in (None, (), "", dataclasses.MISSING)
    return "" if is_none else f"`{part.default}`"


def distributions() -> str:
    text = DISTRIBUTIONS.read_text(encoding="utf-8")
    for kind in (DataParallel, ModelParallel):
        start = text.index(f"| `{kind.word}` has |")
        end = text.index("\n\n", start)
        text = text[:start] + "\n".join(_settings(kind)) + text[end:]
    return text


def _settings(kind: type[DataParallel | ModelParallel]) -> Iterator[str]:
    """Yield a table of a distribution's fields, as its docstring explains them."""
    yield from (f"| `{kind.word}` has | meaning | default |", "|---|---|---|")
    parts = {part.name: part for part in dataclasses.fields(kind)}
    explained = re.findall(r"^([a-z_, ]+):(?= )((?:.*)(?:\n    .*)*)", inspect.getdoc(kind), re.M)
    rows = [([name.strip() for name in names.split(",")], text) for names, text in explained]
    assert sorted(name for names, _ in rows for name in names) == sorted(parts)
    for names, text in rows:
        meaning = re.sub(r'"(\w+)"', r"`\1`", " ".join(text.split()))
        default = _shown(parts[names[0]]) if len(names) == 1 else ""
        shown = ", ".join(f"`{name}`" for name in names)
        yield f"| {shown} | {meaning} | {default} |".replace("  |", " |")


@pytest.mark.parametrize(
    ("derive", "path"),
    [(stub, STUB), (page, PAGE), (distributions, DISTRIBUTIONS)],
    ids=["stub", "page", "distributions"],
)
def test_a_derived_file_is_as_its_fields_are_declared(derive, path) -> None:
    made = derive()
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8"), "UPDATE_GOLDEN=1 renews the file"


@pytest.mark.long
def test_editors_see_the_arguments() -> None:
    jedi = pytest.importorskip("jedi", reason="comes with ipykernel")
    script = jedi.Script("from launcher import Estimator\nEstimator(", project=jedi.Project(ROOT))
    (signature,) = script.get_signatures(2, len("Estimator("))
    assert [parameter.name for parameter in signature.params] == list(ARGUMENTS)
