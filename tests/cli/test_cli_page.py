"""docs/cli.md has every verb and every option, as their help has them, and no other.

The beginning of each section is written from click's declarations: after a change of a help text,
`UPDATE_GOLDEN=1 python -m pytest tests/cli/test_cli_page.py` writes it anew.
"""

import os
import re
import textwrap
from collections import Counter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import launcher.client.cli
from launcher.client.cli import VERB_GROUPS, VERBS, main

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BY_HAND = "<!-- by hand -->\n"
SHARED_TITLE = "Options of many verbs"


def commands(verbs, before="launcher"):
    """Yield each verb with its words, and behind it those that begin with it."""
    for name, verb in verbs.items():
        yield f"{before} {name}", verb
        yield from commands(verb.subcommands, f"{before} {name}")


COMMANDS = {words: verb.load() for words, verb in commands(VERBS)}
RECORDS = {
    words: [
        record
        for option in command.params
        if isinstance(option, click.Option)
        if (record := option.get_help_record(click.Context(command)))
    ]
    for words, command in COMMANDS.items()
}
USES = Counter(record for records in RECORDS.values() for record in records)
SHARED = [record for record, uses in USES.items() if uses > 2]


def renewed(page: str) -> str:
    """Return the page with what is written between each heading and the part by hand."""
    parts = []
    for part in re.split(r"^(?=##? |### launcher)", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        by_hand = f"{BY_HAND}{text.split(BY_HAND)[1]}" if BY_HAND in text else ""
        parts.append(f"{heading}\n\n{beginning(heading.lstrip('# '))}\n\n{by_hand}")
    return "".join(parts).rstrip("\n") + "\n"


def beginning(title: str) -> str:
    """Return what is written below a heading."""
    if title not in COMMANDS:
        return option_table(SHARED) if title == SHARED_TITLE else verb_table()
    command = COMMANDS[title]
    usage = " ".join([title, *command.collect_usage_pieces(click.Context(command))])
    places = {record: place_of(record, title) for record in RECORDS[title]}
    own = [record for record, place in places.items() if place == title]
    others = [
        ("`, `".join(option for (option, _), where in places.items() if where == place), place)
        for place in dict.fromkeys(places.values())
        if place != title
    ]
    links = [(also, f"see [{place}](#{place.lower().replace(' ', '-')})") for also, place in others]
    text = f"`{usage}`: {command.help}"
    if not own:
        text += "".join(f" For `{also}` {link}." for also, link in links)
    words = textwrap.fill(
        " ".join(text.split()), 120, break_on_hyphens=False, break_long_words=False
    )
    return f"{words}\n\n{option_table(own + links)}" if own else words


def place_of(record: tuple[str, str], title: str) -> str:
    """Return the section that describes an option: of many verbs, or the first that has it."""
    if record in SHARED:
        return SHARED_TITLE
    return next(words for words, records in RECORDS.items() if record in records)


def verb_table() -> str:
    rows = ["| group | verbs |", "|---|---|"]
    for group, verbs in VERB_GROUPS.items():
        names = [words for words, _ in commands(verbs)]
        links = [f"[{words[9:]}](#{words.replace(' ', '-')})" for words in names]
        rows.append(f"| {group} | {', '.join(links)} |")
    return "\n".join(rows)


def option_table(records: list[tuple[str, str]]) -> str:
    """Return a table; choices have commas, as code in a table cannot have a pipe."""
    rows = [(f"`{option}`", " ".join(meaning.split())) for option, meaning in records]
    lines = ["| {} | {} |".format(*(cell.replace("|", ", ") for cell in row)) for row in rows]
    return "\n".join(["| option | meaning |", "|---|---|", *lines])


def test_the_page_says_what_the_help_says():
    page = PAGE.read_text(encoding="utf-8")
    made = renewed(page)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")
    assert made == page, "UPDATE_GOLDEN=1 writes it anew"


def test_every_verb_has_a_section():
    assert re.findall(r"^#+ (launcher .*)", PAGE.read_text(), re.MULTILINE) == list(COMMANDS)


def test_no_option_is_described_that_is_not_there():
    there = {name for records in RECORDS.values() for record in records for name in long(record[0])}
    assert long(PAGE.read_text()) <= there | {"--help"}


def long(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


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
