"""The command lines that the docs show: verbs, arguments and options as the command has them."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from snippets import ROOT, commands, snippets

from launcher.client.cli import main

#: Where `launcher`'s own words end.
_ENDS = ("|", ">", "&&", "<TAB>")
#: Files that options read; job files are looked for later.
_FILES = ("w.yaml", "partition.json", "variables")
GUIDES = ROOT / "docs" / "guides"


def of_picture(file: Path) -> list[str]:
    """The commands in the boxes of a picture, of which a line may go on in the next one."""
    texts = (
        each.text or "" for each in ElementTree.parse(file).iter() if each.tag.endswith("text")
    )
    joined = "\n".join(texts).replace("\\\n", "")
    return re.findall(r"^\$ (launcher .*)$", joined, re.MULTILINE)


def of_table(file: Path) -> list[str]:
    """The commands in the last column of a page's tables."""
    return re.findall(r"\| `(launcher [^`]*)` \|$", file.read_text(), re.MULTILINE)


IN_SNIPPETS = {
    line
    for snippet in snippets("console")
    for line in commands(snippet)
    if line.startswith("launcher ")
}
OF_DECISIONS = [*of_picture(GUIDES / "decisions.svg"), *of_table(GUIDES / "decisions.md")]
LINES = sorted({*IN_SNIPPETS, *OF_DECISIONS})


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_of_the_docs_is_one(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in _FILES:
        Path(name).touch()
    words = shlex.split(line)[1:]
    own = next((words[:place] for place, word in enumerate(words) if word in _ENDS), words)
    if "<TAB>" in words:
        assert own[0] in main.list_commands(click.Context(main))
        return
    with contextlib.suppress(click.exceptions.Exit):  # --version
        parse(main, own)


def test_the_commands_of_the_decisions_are_read() -> None:
    assert "launcher plan --workload w.yaml --train-hosts 1,2,4" in OF_DECISIONS
    assert len(OF_DECISIONS) == 18


def test_each_leaf_of_the_decisions_has_a_command() -> None:
    boxes = (GUIDES / "decisions.svg").read_text().split("<rect ")[2:]  # the first is the page

    assert all("$ launcher " in box for box in boxes)


def test_a_mistake_in_one_is_found() -> None:
    with pytest.raises(click.NoSuchOption):
        parse(main, ["run", "job.yaml", "--locall"])
    with pytest.raises(click.MissingParameter):
        parse(main, ["exec"])


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Parse a command line as click does, and run nothing; raises its UsageError."""
    context = command.make_context(command.name, list(words), parent=parent)
    if isinstance(command, click.Group):
        rest = context._protected_args + context.args
        name, verb, rest = command.resolve_command(context, rest)
        assert verb is not None, name
        parse(verb, rest, context)
