"""docs/cli.md has every verb and every option, and no other."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import launcher.client.cli
from launcher.client.cli import VERBS, main

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SECTIONS = dict(re.findall(r"^## launcher (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def options_of(verb):
    """The long names of a verb's options, and of those of the commands below it."""
    verbs = [VERBS[verb]]
    for each in verbs:
        verbs += each.subcommands.values()
    options = [
        option
        for each in verbs
        for option in each.load().params
        if isinstance(option, click.Option) and not option.hidden
    ]
    names = (name for option in options for name in (*option.opts, *option.secondary_opts))
    return {name for name in names if name.startswith("--")}


def words_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def test_every_verb_has_a_section():
    assert list(SECTIONS) == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_section_has_an_example_and_every_option(verb):
    assert f"launcher {verb}" in SECTIONS[verb]
    assert options_of(verb) <= words_of(SECTIONS[verb])


def test_no_option_is_described_that_is_not_there():
    assert words_of(PAGE) <= {"--help"}.union(*map(options_of, VERBS))


def test_the_file_of_a_verb_is_short():
    """A verb reads its options and prints; its work is done in the rooms below."""
    folder = Path(launcher.client.cli.__file__).parent / "verbs"
    lines = {each.name: len(each.read_text().splitlines()) for each in folder.glob("*.py")}
    assert {name: count for name, count in lines.items() if count >= 100} == {}


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("probe", "launcher run examples/probe/job.yaml"),
        ("schema", "launcher check --schema"),
        ("config", "launcher check --config"),
        ("shell", "launcher exec NAME"),
        ("cp", "launcher download NAME PATH --to TARGET"),
        ("catalog", "launcher plan types"),
        ("profile", "launcher plan measure"),
        ("partition", "launcher plan cut"),
        ("prune", "launcher rm --older-than"),
        ("interrupt", "launcher stop --spot"),
    ],
)
def test_a_former_verb_answers_with_what_to_write_now(former, now):
    answer = CliRunner().invoke(main, [former, "job-1"])
    assert answer.exit_code == 2
    assert now in answer.stderr
