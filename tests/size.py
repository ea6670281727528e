"""The size of the tree: `make size`.

Lines by room, files, lengths of functions, files with one importer, and names shown to users.

    python tests/size.py [--root FOLDER] [--json] [--list]

--root measures another tree; --list names the files with one importer. A line of code has a token
of Python that is no comment and no docstring; a function's length is that of its `def` and body.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib import import_module
from pathlib import Path

from coverage_by_room import room_of

ROOT = Path(__file__).parents[1]
#: A file shorter than this, with one importer, may be half of it.
SHORT = 60
_KINDS = ("code", "docstring", "comment", "blank")
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Source:
    """A file of Python. path: below the tree's root."""

    path: Path
    text: str

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(ast.parse(self.text)))

    @property
    def module(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def lines(self) -> Counter[str]:
        """Lines by kind."""
        count = len(self.text.splitlines())
        documented = {line for node in self.nodes for line in _docstring(node)}
        code, comments = set(), set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            covered = range(token.start[0], token.end[0] + 1)
            if token.type == tokenize.COMMENT:
                comments.update(covered)
            elif token.type not in _LAYOUT:
                code.update(covered)
        code -= documented
        comments -= code
        blank = count - len(code) - len(documented) - len(comments)
        return Counter(
            code=len(code), docstring=len(documented), comment=len(comments), blank=blank
        )

    @property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, _FUNCTION)]

    @property
    def import_lines(self) -> int:
        return sum(_length(node) for node in self.nodes if isinstance(node, _IMPORT))

    @cached_property
    def door(self) -> dict[str, str]:
        """The modules of the names that it lists for other rooms (launcher/shared/doors.py)."""
        blocks = [node for node in ast.parse(self.text).body if isinstance(node, ast.If)]
        lines = [line for block in blocks for line in block.body]
        return {
            each.name: str(line.module)
            for line in lines
            if "open_door(" in self.text and isinstance(line, ast.ImportFrom)
            for each in line.names
        }

    def imported(self, doors: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        """Each module that it may import: `from a import b` is of a, and of a.b if there is one.

        Where a is a door, it is of the module behind it; what a door lists it does not import.
        """
        package = list(self.path.parts[:-1])
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *filter(None, [node.module])])
                for each in node.names:
                    if self.door.get(each.name) != base:
                        home = _behind(doors, base, each.name)
                        yield from (base, home, f"{home}.{each.name}")


_IMPORT = (ast.Import, ast.ImportFrom)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTION)


def _docstring(node: ast.AST) -> range:
    """The lines of a node's docstring."""
    if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        first = node.body[0]
        return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


def _behind(doors: Mapping[str, Mapping[str, str]], module: str, name: str) -> str:
    """The module that a name comes from which is imported from another."""
    while (home := doors.get(module, {}).get(name, module)) != module:
        module = home
    return module


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@dataclass(frozen=True, kw_only=True)
class Names:
    """Counts of the names that a user meets. verb_options: each verb's own options, added up."""

    launcher: int
    launcher_data: int
    launcher_parallel: int
    estimator_arguments: int
    loader_arguments: int
    job_fields: int
    verbs: int
    verb_options: int
    different_options: int


def names_shown() -> Names:
    """Ask the product that is imported, through its doors."""
    launcher, data, parallel = map(
        import_module, ("launcher", "launcher.data", "launcher.parallel")
    )
    verbs = dict(_verbs(import_module("launcher.client.cli").main))
    return Names(
        launcher=len(launcher.__all__),
        launcher_data=len(data.__all__),
        launcher_parallel=len(parallel.__all__),
        estimator_arguments=len(inspect.signature(launcher.Estimator).parameters),
        loader_arguments=len(inspect.signature(data.DataLoader).parameters),
        job_fields=len(fields(launcher.JobSpec)),
        verbs=len(verbs),
        verb_options=sum(map(len, verbs.values())),
        different_options=len({option for each in verbs.values() for option in each}),
    )


def _verbs(group: object) -> Iterator[tuple[str, set[str]]]:
    """Each visible verb of the command line, with the options that its help names."""
    click = import_module("click")
    with click.Context(group) as context:
        for name in group.list_commands(context):
            options = group.get_command(context, name).params
            yield name, {each.opts[0] for each in options if isinstance(each, click.Option)}


def sources(root: Path, folders: Iterable[str]) -> list[Source]:
    found = (path for folder in folders for path in (root / folder).rglob("*.py"))
    return [Source(path.relative_to(root), path.read_text("utf-8")) for path in sorted(found)]


def with_one_importer(files: Sequence[Source]) -> dict[Source, str]:
    """The files that exactly one other imports, and that one."""
    importers: dict[str, set[str]] = {each.module: set() for each in files}
    doors = {each.module: each.door for each in files}
    for each in files:
        for name in each.imported(doors):
            if name in importers and name != each.module:
                importers[name].add(each.module)
    alone = {each: importers[each.module] for each in files if len(importers[each.module]) == 1}
    return {each: next(iter(found)) for each, found in alone.items()}


def measure(files: Sequence[Source]) -> dict[str, object]:
    """The figures of a part of the tree; shares are those of all files and of all lines."""
    lines = sum((each.lines for each in files), Counter())
    lengths = sorted(_length(node) for each in files for node in each.functions) or [0]
    short = [each for each in files if each.lines.total() < SHORT]
    return {
        "files": len(files),
        **{kind: lines[kind] for kind in _KINDS},
        "functions": len(lengths),
        "function_median": lengths[len(lengths) // 2],
        "function_p90": lengths[len(lengths) * 9 // 10],
        "function_max": lengths[-1],
        "short_files": len(short),
        "short_share": round(len(short) / max(len(files), 1), 3),
        "import_share": round(sum(each.import_lines for each in files) / max(lines.total(), 1), 3),
    }


def by_room(files: Iterable[Source]) -> dict[str, list[Source]]:
    rooms: dict[str, list[Source]] = {}
    for each in files:
        rooms.setdefault(room_of(each.path), []).append(each)
    return dict(sorted(rooms.items()))


def report(root: Path) -> dict[str, object]:
    product, tests = sources(root, ["launcher", "entrypoints"]), sources(root, ["tests"])
    alone = with_one_importer(product)
    count = sum(node.name.startswith("test") for each in tests for node in each.functions)
    lines_of_tests = sum(each.lines.total() for each in tests)
    return {
        "product": measure(product),
        "one_importer": {
            "files": len(alone),
            "short_files": sum(each.lines.total() < SHORT for each in alone),
            "list": {str(each.path): importer for each, importer in alone.items()},
        },
        "tests": {
            **measure(tests),
            "test_functions": count,
            "lines_per_test": round(lines_of_tests / max(count, 1), 1),
        },
        "names": asdict(names_shown()),
        "rooms": {room: measure(each) for room, each in by_room([*product, *tests]).items()},
    }


_COLUMNS = {
    "files": "files",
    "code": "code",
    "docstring": "docstring",
    "comment": "comment",
    "blank": "blank",
    "function_median": "median",
    "function_p90": "p90",
    "function_max": "max",
    "short_files": f"<{SHORT} lines",
    "import_share": "imports",
}


def _print(found: Mapping[str, Mapping[str, object]], is_listed: bool) -> None:
    print(f"{'room':<30}" + "".join(f"{title:>10}" for title in _COLUMNS.values()))
    totals = {"product, in all": found["product"], "tests, in all": found["tests"]}
    for room, figures in {**found["rooms"], **totals}.items():
        print(f"{room:<30}" + "".join(f"{figures[name]:>10}" for name in _COLUMNS))
    tests, alone = found["tests"], found["one_importer"]
    print(f"\n{tests['test_functions']} test functions, {tests['lines_per_test']} lines each")
    short = f"of which {alone['short_files']} have fewer than {SHORT} lines"
    print(f"{alone['files']} files have one importer, {short}")
    print("shown to users: " + ", ".join(f"{n} {name}" for name, n in found["names"].items()))
    if is_listed:
        for path, importer in alone["list"].items():
            print(f"  {path} <- {importer}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    sys.path.insert(0, str(asked.root.resolve()))
    found = report(asked.root)
    if asked.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found, asked.list)


if __name__ == "__main__":
    main()
