"""A job's summary, and the record of how it was sent, as text for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.client.catalogue import OLD_MARK, dollars_text
from launcher.client.show import Note, Style, labelled, note_lines, plain_style

#: Hosts of a group, and ranks, that are named one by one.
_MOST_NAMED = 8
#: Of a job's state on a terminal.
STATE_COLOURS = {
    "Completed": "green",
    "Failed": "red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "InProgress": "cyan",
}


def summary_text(
    summary: Mapping[str, Any], *, is_followed: bool = False, style: Style = plain_style
) -> str:
    """Return status, hosts per group, cost, data, metrics, model, and the next commands as text.

    Of a failed job it ends with the cause. is_followed: the reader has just seen what the hosts
    printed. style: how status and cause are shown, for example in colour.
    """
    lines = ["", *note_lines(_facts(summary, is_followed, style))]
    return "\n".join(lines if summary["failure"] else [*lines, *_next_lines(summary)])


def _facts(summary: Mapping[str, Any], is_followed: bool, style: Style) -> Iterator[Note]:
    status, secondary = summary["status"], summary["secondary_status"]
    yield "Job", summary["name"]
    styled = style(status, fg=STATE_COLOURS.get(status), bold=True)
    reason = f" ({secondary})" if secondary != status else ""
    interruptions = _interruptions(summary["interruptions"])
    yield "Status", f"{styled}{reason}{interruptions}"
    for group in summary["groups"]:
        yield "Group", _group(group)
    yield from _cost_facts(summary)
    yield from _refusal_facts(summary["logs_refused"])
    yield from labelled("Files", summary.get("losses", ()))
    if summary["failure"] is not None:
        yield from _failure_facts(summary["name"], summary["failure"], is_followed, style)
        return
    yield from _data_facts(summary["data"])
    if change := summary.get("plan"):
        yield "Plan", change
    for name, value in summary["metrics"].items():
        yield "Metric", f"{name} = {value:.6g}"
    if summary["model_artifacts"]:
        yield "Model", summary["model_artifacts"]


def _interruptions(count: int) -> str:
    if not count:
        return ""
    return f", interrupted {'once' if count == 1 else f'{count} times'}"


def _failure_facts(
    name: str, failure: Mapping[str, Any], is_followed: bool, style: Style
) -> Iterator[Note]:
    """Yield the cause, the lines that show it, and what to try."""
    host = failure["host"]
    place = f"{host} ({failure['group']}): " if host else ""
    yield "Cause", place + style(failure["cause"], fg="red")
    if failure["traceback"] or not is_followed:
        yield from (("", line) for line in failure["lines"])
    of_host = f" --host {host}" if host else ""
    attempts = [failure["fix"]] if failure["fix"] else []
    yield from labelled("Try", [*attempts, f"launcher logs {name}{of_host}"])


def _group(group: Mapping[str, Any]) -> str:
    seconds = group["billable_seconds"]
    billed = "" if seconds is None else f", {seconds} billable seconds"
    role = f" ({group['role']})" if group["role"] else ""
    return (
        f"{group['name']}{role}: {len(group['hosts'])} x {group['instance_type']}, "
        f"{_hosts(group['hosts'])}{billed}"
    )


def _hosts(names: Sequence[str]) -> str:
    """Return the hosts of a group, and of many the first and the last."""
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{names[0]} to {names[-1]}"


def _counts(kind: str, counts: Mapping[str, int]) -> str:
    """Return a count for each host or rank, and of many the range."""
    if len(counts) > _MOST_NAMED:
        low, high = min(counts.values()), max(counts.values())
        return f"{low if low == high else f'{low} to {high}'} for each {kind}"
    named = "rank " if kind == "rank" else ""
    return ", ".join(f"{named}{name} {count}" for name, count in counts.items())


def _cost_facts(summary: Mapping[str, Any]) -> Iterator[Note]:
    cost = summary["cost"]
    if cost is None:
        return
    old = OLD_MARK if cost.get("prices_are_old") else ""
    at_most = f"(max {dollars_text(cost['max_dollars'])}{old})"
    if summary["exit_code"] is None:
        yield "Cost", f"known once the job has ended {at_most}"
        return
    unknown = ", ".join(cost["unknown_prices"])
    without = " without storage" if cost.get("volumes_per_hour") is None else ""
    reason = f": the price of {unknown} is unknown" if unknown else f", an estimate{without}"
    yield "Cost", f"{dollars_text(cost['dollars'])}{old} {at_most}{reason}"
    if len(cost["by_group"]) > 1:
        each = (f"{name} {dollars_text(dollars)}" for name, dollars in cost["by_group"].items())
        yield "", ", ".join(each)
    yield from (("", source) for source in cost["prices"])
    if cost["spot_saving"] is not None:
        yield "Spot", f"{cost['spot_saving']:.1%} saved"


def _refusal_facts(refusal: str | None) -> Iterator[Note]:
    if refusal is None:
        return
    headline, *fix = refusal.splitlines()
    yield "Logs", f"not read, nor what they have about data: {headline}"
    yield from (("", line.strip()) for line in fix)


def _data_facts(data: Mapping[str, object] | None) -> Iterator[Note]:
    if data is not None:
        yield from labelled("Data", _data_texts(data))


def _data_texts(data: Mapping[str, Any]) -> Iterator[str]:
    prepared, received = data["batches_by_host"], data["batches_received"]
    if prepared:  # known once the hosts report at the end of the job
        yield f"{sum(prepared.values())} batches prepared ({_counts('host', prepared)})"
    if prepared and received:
        yield f"{sum(received.values())} batches received ({_counts('rank', received)})"
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
    if summary.get("plan"):
        yield f"  launcher diagnose {name}"
    yield "  launcher list"


def job_record_text(record: Mapping[str, Any] | None) -> str:
    """Return how a job was made: command, commit, hyperparameters, and installed packages."""
    if record is None:
        return "\nNo record of this job: another client, machine or older Launcher sent it"
    facts = record_facts(record)
    notes = (note for label, text in facts for note in labelled(label, text.split("\n")))
    return "\n".join(["", *note_lines(notes)])


def record_facts(record: Mapping[str, Any]) -> Iterator[Note]:
    """Yield how a job was made: labels, and texts of one or more lines."""
    yield "Launcher", f"{record['launcher']}, Python {record['python']}"
    if record["rerun_of"]:
        yield "Repeats", record["rerun_of"]
    yield "Command", shlex.join(record["command_line"])
    yield "Commit", _commit(record["git"])
    yield from parameter_facts(record["hyperparameters"])
    yield from parameter_facts(record["tags"], "Tags")
    if record["variables"]:
        yield "Environ", ", ".join(record["variables"])
    packages = record["packages"]
    yield "Packages", f"{len(packages)} installed: {', '.join(packages)}"


def parameter_facts(parameters: Mapping[str, object], label: str = "Params") -> Iterator[Note]:
    """Yield the hyperparameters of a job, or its tags, if it has any."""
    if parameters:
        yield label, "\n".join(f"{name} = {value}" for name, value in parameters.items())


def _commit(git: Mapping[str, Any] | None) -> str:
    if git is None:
        return "none: the source is in no git repository, or git did not answer"
    return f"{git['commit']}{', with uncommitted changes' if git['is_dirty'] else ''}"
