"""The events of a job's hosts that its user should see, in plain words.

Warnings, and the progress of a task, whose trainer prints nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The sentence of each warning, with the event's own fields.
WARNINGS = {
    "batch_damaged": "a batch of {worker} was damaged on its way and is prepared again: {why}",
    "batch_not_sent": "the data worker {worker} cannot send its batches: {why}",
    "batch_overdue": "rank {rank} has waited {seconds} s for the batch of {batch}",
    "batch_refused": "a batch cannot be taken in: {why}",
    "data_awaited": "still waiting for data after {seconds} s: {what}",
    "data_in_process": "num_workers={num_workers} starts no processes; {why}",
    "dispatcher_not_reconnected": "the data service cannot be reached again: {why}",
    "distribution_in_every_group": "{why}: {fix}",
    "failure_not_written": "the cause of the failure could not be written: {why}",
    "files_lost": "no model was kept: write to SM_MODEL_DIR what is to stay. New files elsewhere, "
    "which are lost: {files}",
    "host_unreachable": "{member} cannot be reached: {why}",
    "host_silent": "{member} has sent nothing for {seconds} s; it may be frozen",
    "iterator_not_closed": "the iterator of {dataset} cannot be closed: {why}",
    "leader_unreachable": "the leader {leader} cannot be reached: {why}",
    "memory_low": "memory is low: {why}",
    "metrics_not_served": "metrics are not served on port {port}: {why}",
    "port_taken": "a port is in use: {why}; {fix}",
    "rank_hangs": "rank {of_rank} hangs: {cause}",
    "rank_idle": "rank {rank} has read nothing for {seconds} s",
    "ranks_begin_apart": "{stream}: {why}",
    "receiver_failed": "the process that receives batches has failed: {why}",
    "service_restarted": "the {service} has ended and is restarted: {how}",
    "shard_not_queried": "{dataset} did not ask which shard it is (shard {shard} of {shards})",
    "tf_server_died": "{server} has died and is restarted: {how}; what a worker had prepared is "
    "read again, or lost with sharding='dynamic'",
    "versions_differ": "{package} differs between groups: {by_group}; {why}",
    "waiting_for_peer": "still waiting for {peer} after {seconds} s: {why}",
    "worker_died": "data worker {worker} has died and is restarted: {how}",
    "worker_failed": "the data worker {worker} has failed: {why}",
}


def sentence(name: str, fields: Mapping[str, Any]) -> str | None:
    """Return the sentence of an event; None for one that is not shown, or lacks its fields.

    >>> waits = {"waits_for": "algo-1,algo-2", "in_group": "data", "instance_type": "local",
    ...     "ended_group": "dnn", "minutes": 10, "dollars_per_hour": 0.4}
    >>> sentence("waiting_for_hosts", waits)
    'algo-1, algo-2 (data, local): still running 10 min after dnn; $0.40 an hour on SageMaker'
    """
    try:
        if name == "waiting_for_hosts":
            return _waiting_for_hosts(fields)
        if name in WARNINGS:
            plain = {key: _plain(value) for key, value in fields.items()}
            return "warning: " + WARNINGS[name].format_map(plain)
        if name == "train_step":
            speed = f"{fields['samples_per_second']:.4g} samples/s"
            return f"step {fields['step']}/{fields['steps']}: loss {fields['loss']:.6g}, {speed}"
        if name == "evaluation":
            values = (f"{key} {each:.6g}" for key, each in fields.items() if _is_mean(key))
            return f"epoch {fields['epoch']}: {', '.join(values)}"
        if name == "early_stop":
            return f"stopped early: {fields['patience']} evaluations without a better one"
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
    ):  # a line of the script's own
        pass
    return None


def _waiting_for_hosts(fields: Mapping[str, Any]) -> str:
    hosts = ", ".join(fields["waits_for"].split(","))
    minutes = int(fields["minutes"])
    since = f"{f'{minutes} min ' if minutes else ''}after {fields['ended_group']}"
    price = fields.get("dollars_per_hour")
    cost = "" if price is None else f"; ${float(price):.2f} an hour on SageMaker"
    return f"{hosts} ({fields['in_group']}, {fields['instance_type']}): still running {since}{cost}"


def _is_mean(field: str) -> bool:
    return field.startswith("validation_")


def _plain(value: object) -> object:
    """Return a mapping or a list without JSON's signs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else value
