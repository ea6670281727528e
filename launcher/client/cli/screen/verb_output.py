"""Output of a verb, and the questions that it asks: text, `-o json`, CSV, exit codes and colours.

Text of others passes one door, `echo`, and controls nothing. This is the only place that turns
errors into output and exit codes. stdout has only the result; messages and questions go to stderr.
With `-o json` an error is a result too:
{"error": {...}, "exit_code": N}.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click

from launcher.client.cli.options.shared_options import Verb
from launcher.client.home import disk_problem
from launcher.client.show import NOTE_COLUMN, Table, csv_lines, fitted, json_text, table_text
from launcher.errors import LauncherError, PlatformError, SpecError
from launcher.shared import printable

#: Columns of the narrowest terminal that text is fitted to.
_LEAST_COLUMNS = 20


def with_output_option(verb: Callable[..., int]) -> Callable[..., None]:
    """Add `-o` to a verb; its return value, or the error it raises, sets the exit code."""
    form = click.option(
        "-o", "output", type=click.Choice(["text", "json"]), default="text", help="Output format."
    )
    return form(with_exit_code(verb))


def with_data_option(verb: Callable[..., int]) -> Callable[..., None]:
    """Add `-o`, with CSV among its forms, and `--json` for `-o json`, to a verb."""
    form = click.option(
        "-o",
        "output",
        type=click.Choice(["text", "json", "csv"]),
        default="text",
        is_eager=True,  # known before its short form is read
        help="Output format.",
    )
    short = click.option(
        "--json", is_flag=True, expose_value=False, callback=_choose_json, help="Short for -o json."
    )
    return form(short(with_exit_code(verb)))


def _choose_json(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given:
        context.params["output"] = "json"


def with_json_flag(verb: Callable[..., int]) -> Callable[..., None]:
    """Add `--json` to a verb whose `-o` names a file; otherwise as `with_output_option`."""
    form = click.option("--json", "output", flag_value="json", default="text", help="Print JSON.")
    return form(with_exit_code(verb))


def with_exit_code(verb: Callable[..., int]) -> Callable[..., None]:
    """Let a verb's return value, or the error it raises, set the exit code."""

    @click.pass_context
    @functools.wraps(verb)
    def command(context: click.Context, /, **arguments: object) -> None:
        context.color = context.color if wants_colours() else False
        try:
            with _translate_disk_errors():
                code = verb(**arguments)
        except LauncherError as error:
            code = error.exit_code
            print_error(error)
            if arguments.get("output") == "json":
                print_json(described_error(error))
        context.exit(code)

    return command


@contextmanager
def _translate_disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if problem := disk_problem(error):
            raise PlatformError(problem) from error
        raise


def act_on_each(
    names: Iterable[str], act: Callable[[str], Mapping[str, object] | None], output: str
) -> int:
    """Act on each job, on the others all the same if one fails; return the first error's exit code.

    Errors are printed at once. act: returns the job as `-o json` prints it, or None to leave it
    out.
    """
    jobs: list[Mapping[str, object]] = []
    errors: list[LauncherError] = []
    for name in dict.fromkeys(names):
        try:
            done = act(name)
        except LauncherError as error:
            errors.append(error)
            print_error(error)
            continue
        if done is not None:
            jobs.append(done)
    if output == "json":
        print_json({"jobs": jobs, **(described_error(errors[0]) if errors else {})})
    return errors[0].exit_code if errors else 0


def print_message(text: str) -> None:
    """Print a message on stderr, without what its names and values would do to a terminal."""
    echo(text, err=True)


def wants_colours() -> bool:
    """Return False for a terminal without colours, and for NO_COLOR (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_warnings(warnings: Iterable[str]) -> None:
    """Print each warning on stderr."""
    for warning in warnings:
        print_message(f"warning: {warning}")


def print_error(error: LauncherError) -> None:
    """Print an error on stderr, with one "error: " in front."""
    text = str(error)
    print_message(text if text.startswith("error: ") else f"error: {text}")


def described_error(error: LauncherError) -> dict[str, object]:
    """Return an error as `-o json` prints it."""
    described: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, SpecError):
        described["problems"] = [
            {"what": problem.what, "where": problem.where, "fix": problem.fix}
            for problem in error.problems
        ]
    return {"error": described, "exit_code": error.exit_code}


def echo(*parts: object, err: bool = False, note_column: int = 0) -> None:
    """Print texts and tables, with empty lines between: as wide as a terminal, in its colours.

    Control characters other than colours are made visible. note_column: where texts behind labels
    begin; 0 for the default.
    """
    width = terminal_width(sys.stderr if err else sys.stdout)
    shown = (_fitted_part(each, width, note_column) for each in parts)
    click.echo(printable("\n\n".join(shown), keep_styles=wants_colours()), err=err)


def _fitted_part(part: object, width: int | None, column: int) -> str:
    if not isinstance(part, Table):
        return fitted(printable(str(part)), width, column)
    return table_text(part, width=width, note_column=column or NOTE_COLUMN, style=click.style)


def terminal_width(stream: TextIO) -> int | None:
    """Return $COLUMNS or the columns of a terminal; None for a pipe or a file, which has none.

    Some terminals do not know their size: they are taken for 80 columns wide.
    """
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    with suppress(OSError):
        known = int(given) if given.isdecimal() else 0
        known = known or os.get_terminal_size(stream.fileno()).columns
        return max(known, _LEAST_COLUMNS) if known else 80
    return 80


def print_json(value: object) -> None:
    """Print the result as JSON."""
    click.echo(json_text(value))


def print_json_line(value: object) -> None:
    """Print a value as JSON on one line, for a result of many lines."""
    click.echo(json_text(value, indent=None))


def print_csv(items: Iterable[Mapping[str, object]]) -> None:
    """Print items as rows of CSV, with a column for each value."""
    for line in csv_lines(items):
        print_whole(line)


def print_whole(text: str) -> None:
    """Print a text for a program to read, whose lines stay as they are however wide."""
    click.echo(printable(text))


def yes_option(meaning: str) -> Callable[[Verb], Verb]:
    """Return the option that answers the questions of a verb."""
    return click.option("-y", "--yes", is_flag=True, help=meaning)


def can_ask() -> bool:
    """Return whether a user sits at the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm_each(act: str, names: Sequence[str], *, yes: bool) -> None:
    """Show what a verb ends, removes or replaces, and ask unless `yes`.

    act: the verb, such as "stop". Raises PlatformError where nobody can be asked, and for a no.
    """
    if not names:
        return
    print_message("\n  ".join((f"To {act}:", *names)))
    if yes:
        return
    if not can_ask():
        raise PlatformError(
            f"nothing was done: --yes is needed to {act} them where stdin or stderr is not a "
            "terminal, which can be asked"
        )
    if not click.confirm(f"{act.capitalize()} all {len(names)}?", default=False, err=True):
        raise PlatformError("nothing was done")
