"""Summary of a job as text for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.catalogue.cost import dollars_text


def summary_text(summary: Mapping[str, Any], status: str | None = None, quote: str = "  | ") -> str:
    """Return status, hosts per group, cost, data, metrics, model, and the next commands as text.

    status: the status as it is to be shown, for example in colour.
    quote: put in front of each of the last lines of a failed host.
    """
    return "\n".join(_lines(summary, status or summary["status"], quote))


def _lines(summary: Mapping[str, Any], status: str, quote: str) -> Iterator[str]:
    secondary = summary["secondary_status"]
    yield f"\nJob      {summary['name']}"
    yield f"Status   {status}" + (f" ({secondary})" if secondary != summary["status"] else "")
    if summary["failure_reason"]:
        yield "Reason   " + summary["failure_reason"].strip().replace("\n", "\n         ")
    yield from _failed_lines(summary["failed_host"], quote)
    for group in summary["groups"]:
        yield _row("Group", _group(group))
    yield from _cost_lines(summary)
    yield from _data_lines(summary["data"])
    for name, value in summary["metrics"].items():
        yield f"Metric   {name} = {value:.6g}"
    if summary["model_artifacts"]:
        yield f"Model    {summary['model_artifacts']}"
    yield from _next_lines(summary)


def _failed_lines(failed: Mapping[str, Any] | None, quote: str) -> Iterator[str]:
    if failed and failed["last_lines"]:
        yield f"Last lines of {failed['group']}/{failed['host']}, which failed first:"
        yield from (quote + line for line in failed["last_lines"])


def _row(word: str, text: str) -> str:
    return f"{word:<9}{text}"


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
    at_most = f"(max {dollars_text(cost['max_dollars'])})"
    if summary["exit_code"] is None:
        yield _row("Cost", f"known once the job has ended {at_most}")
        return
    unknown = ", ".join(cost["unknown_prices"])
    reason = f": the price of {unknown} is unknown" if unknown else ", an estimate without storage"
    yield _row("Cost", f"{dollars_text(cost['dollars'])} {at_most}{reason}")
    if len(cost["by_group"]) > 1:
        each = (f"{name} {dollars_text(dollars)}" for name, dollars in cost["by_group"].items())
        yield _row("", ", ".join(each))
    yield from (_row("", source) for source in cost["prices"])
    if cost["spot_saving"] is not None:
        yield _row("Spot", f"{cost['spot_saving']:.1%} saved")


def _data_lines(data: Mapping[str, object] | None) -> Iterator[str]:
    if data is None:
        return
    for number, text in enumerate(_data_texts(data)):
        yield _row("" if number else "Data", text)


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
    name, failed = summary["name"], summary["failed_host"]
    yield "\nNext"
    if failed:
        yield f"  launcher logs {name} --host {failed['host']}"
    yield f"  launcher logs {name}"
    if summary["exit_code"] is None:
        yield f"  launcher logs -f {name}"
        yield f"  launcher stop {name}"
    elif summary["model_artifacts"]:
        yield f"  launcher download {name}"
    yield "  launcher list"
