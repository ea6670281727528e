"""A job's summary, and the record of how it was sent, as text for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from launcher.client.catalogue import OLD_MARK, dollars_text

#: The column at which the values of a summary begin.
VALUE_COLUMN = 9
_COLOURS = {"Completed": "green", "Failed": "red", "Stopped": "yellow"}


class Style(Protocol):
    """The way a text is shown; `click.style` is one."""

    def __call__(self, text: str, /, *, fg: str | None = None, bold: bool | None = None) -> str:
        """Return the text with the marks of its colour."""
        ...


def _plain(text: str, /, *, fg: str | None = None, bold: bool | None = None) -> str:
    return text


def summary_text(
    summary: Mapping[str, Any], *, is_followed: bool = False, style: Style = _plain
) -> str:
    """Return status, hosts per group, cost, data, metrics, model, and the next commands as text.

    Of a failed job it ends with the cause. is_followed: the reader has just seen what the hosts
    printed. style: how status and cause are shown, for example in colour.
    """
    return "\n".join(_lines(summary, is_followed, style))


def _lines(summary: Mapping[str, Any], is_followed: bool, style: Style) -> Iterator[str]:
    status, secondary = summary["status"], summary["secondary_status"]
    yield "\n" + summary_row("Job", summary["name"])
    styled = style(status, fg=_COLOURS.get(status), bold=True)
    reason = f" ({secondary})" if secondary != status else ""
    interruptions = _interruptions(summary["interruptions"])
    yield summary_row("Status", f"{styled}{reason}{interruptions}")
    for group in summary["groups"]:
        yield summary_row("Group", _group(group))
    yield from _cost_lines(summary)
    yield from _refusal_lines(summary["logs_refused"])
    for number, text in enumerate(summary.get("losses", ())):
        yield summary_row("" if number else "Files", text)
    if summary["failure"] is not None:
        yield from _failure_lines(summary["name"], summary["failure"], is_followed, style)
        return
    yield from _data_lines(summary["data"])
    for name, value in summary["metrics"].items():
        yield summary_row("Metric", f"{name} = {value:.6g}")
    if summary["model_artifacts"]:
        yield summary_row("Model", summary["model_artifacts"])
    yield from _next_lines(summary)


def _interruptions(count: int) -> str:
    if not count:
        return ""
    return f", interrupted {'once' if count == 1 else f'{count} times'}"


def _failure_lines(
    name: str, failure: Mapping[str, Any], is_followed: bool, style: Style
) -> Iterator[str]:
    """Yield the cause, the lines that show it, and what to try."""
    host = failure["host"]
    place = f"{host} ({failure['group']}): " if host else ""
    yield summary_row("Cause", place + style(failure["cause"], fg="red"))
    if failure["traceback"] or not is_followed:
        yield from (summary_row("", line) for line in failure["lines"])
    of_host = f" --host {host}" if host else ""
    attempts = [failure["fix"]] if failure["fix"] else []
    for number, text in enumerate([*attempts, f"launcher logs {name}{of_host}"]):
        yield summary_row("" if number else "Try", text)


def summary_row(word: str, text: str) -> str:
    """Return one line of a summary: a word, empty in the lines that continue one, and its value."""
    return f"{word:<{VALUE_COLUMN}}{text}"


def _group(group: Mapping[str, Any]) -> str:
    seconds = group["billable_seconds"]
    billed = "" if seconds is None else f", {seconds} billable seconds"
    role = f" ({group['role']})" if group["role"] else ""
    return (
        f"{group['name']}{role}: {len(group['hosts'])} x {group['instance_type']}, "
        f"{', '.join(group['hosts'])}{billed}"
    )


def _cost_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    cost = summary["cost"]
    if cost is None:
        return
    old = OLD_MARK if cost.get("prices_are_old") else ""
    at_most = f"(max {dollars_text(cost['max_dollars'])}{old})"
    if summary["exit_code"] is None:
        yield summary_row("Cost", f"known once the job has ended {at_most}")
        return
    unknown = ", ".join(cost["unknown_prices"])
    reason = f": the price of {unknown} is unknown" if unknown else ", an estimate without storage"
    yield summary_row("Cost", f"{dollars_text(cost['dollars'])}{old} {at_most}{reason}")
    if len(cost["by_group"]) > 1:
        each = (f"{name} {dollars_text(dollars)}" for name, dollars in cost["by_group"].items())
        yield summary_row("", ", ".join(each))
    yield from (summary_row("", source) for source in cost["prices"])
    if cost["spot_saving"] is not None:
        yield summary_row("Spot", f"{cost['spot_saving']:.1%} saved")


def _refusal_lines(refusal: str | None) -> Iterator[str]:
    if refusal is None:
        return
    headline, *fix = refusal.splitlines()
    yield summary_row("Logs", f"not read, nor what they have about data: {headline}")
    yield from (summary_row("", line.strip()) for line in fix)


def _data_lines(data: Mapping[str, object] | None) -> Iterator[str]:
    if data is None:
        return
    for number, text in enumerate(_data_texts(data)):
        yield summary_row("" if number else "Data", text)


def _data_texts(data: Mapping[str, Any]) -> Iterator[str]:
    prepared, received = data["batches_by_host"], data["batches_received"]
    if prepared:  # known once the hosts report at the end of the job
        by_host = ", ".join(f"{host} {count}" for host, count in prepared.items())
        yield f"{sum(prepared.values())} batches prepared ({by_host})"
    if prepared and received:
        by_rank = ", ".join(f"rank {rank} {count}" for rank, count in received.items())
        yield f"{sum(received.values())} batches received ({by_rank})"
    if data["skipped"]:
        yield f"{data['skipped']} samples skipped because they raised: see data_epoch in the logs"
    yield from data["warnings"]
    if data["verdict"] is not None:
        yield data["verdict"]["text"]
    elif data["wait_share"] is not None:
        yield f"{data['wait_share']:.1%} of step time spent waiting for data"


def _next_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    name = summary["name"]
    yield "\nNext"
    yield f"  launcher logs {name}"
    if summary["exit_code"] is None:
        yield f"  launcher logs -f {name}"
        yield f"  launcher stop {name}"
    elif summary["model_artifacts"]:
        yield f"  launcher download {name}"
    yield "  launcher list"


def job_record_text(record: Mapping[str, Any] | None) -> str:
    """Return how a job was made: command, commit, hyperparameters, and installed packages."""
    if record is None:
        return "\nNo record of this job: another client, machine or older Launcher sent it"
    return "\n" + "\n".join(_record_lines(record))


def _record_lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield summary_row("Launcher", f"{record['launcher']}, Python {record['python']}")
    if record["rerun_of"]:
        yield summary_row("Repeats", record["rerun_of"])
    yield summary_row("Command", shlex.join(record["command_line"]))
    yield summary_row("Commit", _commit(record["git"]))
    for number, (name, value) in enumerate(record["hyperparameters"].items()):
        yield summary_row("" if number else "Params", f"{name} = {value}")
    if record["variables"]:
        yield summary_row("Environ", ", ".join(record["variables"]))
    packages = record["packages"]
    yield summary_row("Packages", f"{len(packages)} installed: {', '.join(packages)}")


def _commit(git: Mapping[str, Any] | None) -> str:
    if git is None:
        return "none: the source is in no git repository, or git did not answer"
    return f"{git['commit']}{', with uncommitted changes' if git['is_dirty'] else ''}"
