"""README.md, CONTRIBUTING.md, docs/*.md, ...: the paths they name exist, and their lines wrap."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYOUT = ROOT / "docs" / "architecture.md"
# docs/bad-input.md is written by tests/bad_input.
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "examples").glob("*/README.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "bad-input.md"),
]
WIDTH = 120

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
_PATH = re.compile(
    r"(?<![\w/.~-])(?:launcher|tests|docs|examples|benchmarks|entrypoints)/[\w./-]*[\w/]"
)
_IMPORT = re.compile(r"^ *from (launcher[\w.]*) import ([^(\n]+?)(?: *#.*)?$", re.MULTILINE)
_MADE = {"examples/digits/data"}  # `make demo` writes it

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose_of(page):
    """Yield the numbered lines that are neither code nor part of a table."""
    in_code = False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith(("|", "    ")):
            yield number, line


def anchors_of(page):
    """Return the anchors that GitHub gives the page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_links_lead_to_files_and_headings(page):
    for target, anchor in _LINK.findall(page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors_of(file), f"{target}#{anchor}"


@pages
def test_each_path_of_the_repository_exists(page):
    named = set(_PATH.findall(page.read_text())) - _MADE
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pages
def test_imports_of_examples_work(page):
    """One-line imports of Launcher itself; some of the rooms need torch."""
    for module, names in _IMPORT.findall(page.read_text()):
        if module.startswith(("launcher.parallel", "launcher.trainers")):
            pytest.importorskip("torch")
        for name in re.split(r",\s*", names):
            imported = name.split(" as ")[0].strip()
            home = import_module(module)
            is_module = hasattr(home, "__path__") and find_spec(f"{module}.{imported}")
            assert hasattr(home, imported) or is_module, f"{module}.{imported}"


@pages
def test_prose_wraps(page):
    long = [f"{page.name}:{number}" for number, line in prose_of(page) if len(line) > WIDTH]
    assert long == []


def test_the_layout_is_six_rooms():
    """The rooms of the two worlds, and nothing else that could grow out of date."""
    layout = re.search(r"^## Layout\n+```\n(.*?)```", LAYOUT.read_text(), re.DOTALL | re.MULTILINE)
    assert layout is not None
    named = [line.split()[0] for line in layout[1].splitlines()]
    rooms = [f"launcher/{path.parent.name}/" for path in (ROOT / "launcher").glob("*/__init__.py")]
    assert len(named) == 6
    assert sorted(named) == sorted(rooms)
