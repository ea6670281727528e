"""A summary as a person reads it, while the job runs."""

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.client.jobs import summary_text
from launcher.client.show import Table, fitted, table_text, text_columns

RUNNING = {
    "name": "rings-1",
    "status": "InProgress",
    "secondary_status": "Training",
    "failure_reason": None,
    "interruptions": 0,
    "failed_host": None,
    "logs_refused": None,
    "failure": None,
    "cost": None,
    "exit_code": None,
    "model_artifacts": None,
    "groups": [],
    "metrics": {},
    "data": {
        "batches_by_host": {},
        "batches_received": {"0": 64},
        "wait_share": 0.2,
        "skipped": 0,
        "warnings": [],
        "metrics": {},
        "verdict": None,
    },
}


COST = {
    "dollars": 12.31,
    "max_dollars": 48.96,
    "by_group": {"data_group": 2.31, "train_group": 10.0},
    "spot_saving": 0.7,
    "prices": ["us-east-1 on-demand prices of July 2026; eu-west-1 differs"],
    "unknown_prices": [],
}
ENDED = RUNNING | {"status": "Completed", "secondary_status": "Completed", "exit_code": 0}
UNPRICED = {"dollars": None, "max_dollars": None, "unknown_prices": ["ml.p4d.24xlarge"]}
VERDICT = "input-bound 37% of the time: about 6 more vCPU in data_group would remove it"


def with_data(**data):
    return RUNNING | {"data": RUNNING["data"] | data}


#: A summary, the lines that stand in its text together, and words that do not.
SCREENS = {
    "data before hosts have counted": (
        RUNNING,
        "Data     20.0% of step time spent waiting for data",
        ["Cost", "$"],
    ),
    "data at the end": (
        with_data(batches_by_host={"algo-1": 64}, wait_share=None),
        "Data     64 batches prepared (algo-1 64)\n         64 batches received (rank 0 64)",
        ["of step time"],
    ),
    "a verdict instead of the share": (
        with_data(verdict={"text": VERDICT}),
        f"Data     {VERDICT}",
        ["of step time"],
    ),
    "skips and possible mistakes": (
        with_data(skipped=3, warnings=["train: ranks begin apart"]),
        "Data     3 samples skipped because they raised: see data_epoch in the logs\n"
        "         train: ranks begin apart",
        [],
    ),
    "no interruption": (ENDED, "Status   Completed", ["interrupted", "Cost", "$"]),
    "one": (ENDED | {"interruptions": 1}, "Status   Completed, interrupted once", []),
    "several": (ENDED | {"interruptions": 3}, "Status   Completed, interrupted 3 times", []),
    "an estimate for each group, and the saving of spot instances": (
        ENDED | {"cost": COST},
        "Cost     $12.31 (max $48.96), an estimate without storage\n"
        "         data_group $2.31, train_group $10.00\n"
        "         us-east-1 on-demand prices of July 2026; eu-west-1 differs\n"
        "Spot     70.0% saved",
        [],
    ),
    "the maximum while the job runs": (
        RUNNING | {"cost": COST | {"dollars": None, "spot_saving": None}},
        "Cost     known once the job has ended (max $48.96)",
        ["data_group"],
    ),
    "an unknown price": (
        ENDED | {"cost": COST | UNPRICED},
        "Cost     unknown (max unknown): the price of ml.p4d.24xlarge is unknown",
        [],
    ),
}


@pytest.mark.parametrize(("summary", "shown", "absent"), SCREENS.values(), ids=SCREENS)
def test_a_summary(summary, shown, absent):
    screen = summary_text(summary)
    assert f"\n{shown}" in screen
    assert [words for words in absent if words in screen] == []


def test_long_lines_continue_below_their_text():
    text = "Cause    algo-1 (train): a rather long cause of a failure\nTry      more"
    assert fitted(text, 30).splitlines() == [
        "Cause    algo-1 (train): a",
        "         rather long cause of",
        "         a failure",
        "Try      more",
    ]
    assert fitted("a label of eight and its text", 20, 9).splitlines()[1] == " " * 9 + "its text"
    address = "s3://a/" + "b" * 40
    assert fitted(f"Model    {address}", 30).splitlines() == ["Model", address]
    assert fitted("/a/" + "b" * 40, 30) == "/a/" + "b" * 40, "a line of one word is to be copied"


@pytest.mark.timeout(60)
def test_blanks_without_an_end_are_wrapped_in_time() -> None:
    assert fitted("Cause    a" + " " * 1_000_000, 30) == "Cause    a"


def test_colours_and_wide_characters_count_as_the_columns_that_they_take() -> None:
    red = click.style("b" * 20, fg="red")
    assert fitted(f"Cause    {red} x", 31).splitlines() == [f"Cause    {red} x"]
    half = click.style("b" * 5, fg="red")
    assert fitted(f"Cause    {red} x", 20).splitlines() == [f"Cause    {half}…{half}", "         x"]
    assert fitted("Cause    日本語日本語 次", 22).splitlines() == [
        "Cause    日本語日本語",
        "         次",
    ]


NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.é次", min_size=1, max_size=64)
TEXTS = st.lists(NAMES, min_size=1, max_size=12).map(" ".join)


@st.composite
def tables(draw):
    """Tables with columns of names, of texts and of numbers, some of which matter least."""
    columns = draw(st.lists(NAMES, min_size=2, max_size=9, unique=True))
    cells = [draw(st.sampled_from((NAMES, TEXTS, st.just("-")))) for _ in columns]
    rows = draw(st.lists(st.tuples(*cells), min_size=1, max_size=4))
    some = st.lists(st.sampled_from(columns[1:]), unique=True)
    notes = [("", note) for note in draw(st.lists(TEXTS, max_size=2))]
    return Table(
        columns=columns,
        rows=rows,
        notes=notes,
        numbers=draw(some),
        least=draw(some),
        cut=draw(some),
        colours={each: "red" for row in rows for each in row},
    )


def is_of(word: str, words: set[str]) -> bool:
    """True for a whole word, and for one without its middle."""
    head, ellipsis, tail = word.partition("…")
    return word in words or (
        bool(ellipsis)
        and any(
            each.startswith(head) and each.endswith(tail) and len(each) > len(head) + len(tail)
            for each in words
        )
    )


@settings(max_examples=200)
@given(tables(), st.sampled_from((40, 60, 80, 120, 200, None)))
def test_no_word_is_broken_and_no_line_is_wider_than_the_terminal(table, width):
    shown = click.unstyle(table_text(table, width=width, style=click.style))
    said = "Not shown in columns: a pipe has all."
    texts = [*table.columns, *(cell for row in table.rows for cell in row)]
    texts += [note for _, note in table.notes] + [
        said,
        str(width),
        *(f"{c}," for c in table.columns),
    ]
    texts += [f"{name};" for name in table.columns]
    words = {word for text in texts for word in text.split()}
    assert [word for word in shown.split() if word != "…" and not is_of(word, words)] == []
    copied = {note for _, note in table.notes if " " not in note}  # a line of one word is whole
    lines = [line for line in shown.splitlines() if line not in copied]
    assert all(text_columns(line) <= width for line in lines) if width else "…" not in shown
    for name, *cells in list(zip(table.columns, *table.rows, strict=True))[1:]:
        if name not in table.least and {*cells} != {"-"}:
            assert any(is_of(word, {name}) for word in shown.split()), "it is shown"
    if width is None:
        assert {word for text in texts[: texts.index(said)] for word in text.split()} == {
            *shown.split()
        }
