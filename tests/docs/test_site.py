"""The documentation site: its reference has every public name, and it says what the code says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html import unescape
from importlib import import_module
from importlib.util import find_spec

import pytest
from snippets import ROOT

from launcher.client.jobs import advice

DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    "module", ["launcher", "launcher.data", "launcher.parallel", "launcher.trainers"]
)
def test_the_reference_has_every_public_name(module):
    if module in ("launcher.parallel", "launcher.trainers"):
        pytest.importorskip("torch")
    page = (DOCS / "reference" / f"{module.rpartition('.')[2]}.md").read_text()
    shown = re.findall(rf"^::: {re.escape(module)}\.(\w+)$", page, re.M)
    assert sorted(shown) == sorted(import_module(module).__all__)


def test_troubleshooting_gives_the_advice_that_a_failure_gets():
    page = unescape((DOCS / "troubleshooting.md").read_text())
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", page, re.M)
    said = {cause: text for cause, text in rows if "](" not in text}
    assert len(said) == 23
    assert said == {cause: advice(cause, ["images"]) for cause in said}


def test_no_page_has_what_a_browser_takes_for_a_tag():
    for page in DOCS.rglob("*.md"):
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        assert not re.findall(r"<[A-Z][A-Z_]*>", prose), page


def test_no_page_loses_underscores_or_shows_a_backslash():
    """Markdown prints `__main__` as a bold main; in code, it keeps the backslash before a pipe."""
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        assert not re.findall(r"\b__\w+__\b", re.sub(r"`[^`]*`", "", text)), page
        assert not re.findall(r"`[^`\n]*\\\|[^`\n]*`", text), page


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", navigation)
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    titled = re.findall(r"^ *- [^:\n]+: .*\.md$", navigation, re.M)
    assert not titled, "the navigation shows each page's own title"


def test_there_are_twelve_guides_in_four_groups():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("- index.md\n")[2]
    guides = navigation.partition("Reference:")[0]
    assert re.findall(r"^  - (.*):$", guides, re.M) == ["Start", "Data", "Scale", "Cost and AWS"]
    pages = re.findall(r"[\w/-]+\.md$", guides, re.M)
    assert len(pages) <= 12
    for page in pages:
        lines = re.findall(r"^(?!```).+", (DOCS / page).read_text(), re.M)
        assert len(lines) <= 90, f"{page} has more than two screens"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.mark.long
@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="make docs installs it")
def test_the_site_builds_without_a_warning_and_can_be_searched(site):
    assert '"guides/planning.html' in (site / "search" / "search_index.json").read_text()
    assert (site / "repository" / "examples" / "gpt" / "task.py.html").exists()


@pytest.mark.long
@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="make docs installs it")
@pytest.mark.skipif(shutil.which("chromium") is None, reason="apt-get install chromium")
@pytest.mark.parametrize("page", ["index.html", "guides/planning.html"])
def test_a_page_that_is_opened_from_the_disk_can_be_searched(site, page):
    command = ["chromium", "--headless", "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += ["--virtual-time-budget=15000", "--dump-dom", f"file://{site / page}?q=spot"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "unpkg.com" not in shown
    assert re.search(r"\d+ matching documents", shown)


@pytest.mark.long
@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="make docs installs it")
@pytest.mark.parametrize("page", ["launcher", "data", "parallel", "trainers"])
def test_the_reference_shows_arguments_as_a_list_and_examples_as_code(site, page):
    shown = (site / "reference" / f"{page}.html").read_text()
    # A docstring read as Markdown has examples as quotations, and arguments as titles or one text.
    assert "<blockquote>" not in shown
    assert "<details" not in shown
    assert not re.findall(r"<p>[a-z]\w*: ", shown)
    assert re.findall(r"<li>\s*(?:<p>)?<code>\w+</code>", shown)


@pytest.mark.long
@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="make docs installs it")
def test_every_public_name_is_explained_in_the_reference(site):
    shown = (site / "reference" / "data.html").read_text()
    assert "The number of the epoch as an argument" in shown
