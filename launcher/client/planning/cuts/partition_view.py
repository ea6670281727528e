"""The public class `launcher.Partition`, and its tables in terminals and notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterator

from launcher.client.planning.cuts.timeline_picture import timeline_svg
from launcher.client.show import Note, Table, table_html, table_text
from launcher.shared import PartitionChoice, PartitionFile, bytes_text, seconds_text


def stages(partition: PartitionFile) -> Table:
    """Return a row for each stage."""
    head = ("stage", "rank", "begins at", "modules", "forward", "backward", "sending")
    under_way = partition.timeline.under_way
    rows = tuple(
        (
            str(number),
            str(number % partition.partitions),
            each.start,
            str(each.modules),
            *map(seconds_text, (each.forward, each.backward, each.sending)),
            *map(bytes_text, (each.memory, each.sent)),
            str(under_way[number]),
        )
        for number, each in enumerate(partition.stages)
    )
    columns = (*head, "memory", "sent", "in flight")
    numbers = set(columns) - {"begins at"}
    return Table(columns=columns, rows=rows, numbers=numbers, notes=[*notes(partition)])


def choices(partition: PartitionFile) -> Table:
    """Return a row for the file's own choice and for each other one in it."""
    head = ("", "optimize", "partitions", "microbatches", "step", "per microbatch", "memory")
    mine = (partition.objective, partition.partitions, partition.microbatches)
    others = (each for each in partition.choices if _key(each) != mine)
    own = _costs(partition.step, partition.microbatches, largest(partition))
    rows = [("this", partition.objective, *map(str, mine[1:]), *own)]
    rows += [("instead", *_choice(each)) for each in others]
    return Table(columns=head, rows=rows, numbers=set(head) - {"", "optimize"})


def notes(partition: PartitionFile) -> Iterator[Note]:
    """Yield the notes below the stages, as label and text."""
    yield "Step", f"{step_text(partition)}, for {partition.microbatches} microbatches"
    yield "Cuts", _proof(partition)
    cap = "" if partition.memory_cap is None else f", of {bytes_text(partition.memory_cap)}"
    if partition.replicas > 1:
        longest = max(each.exchange for each in partition.stages)
        shards = f", {partition.shard_degree} of them share each stage"
        yield (
            "Replicas",
            f"{partition.replicas}, which exchange gradients for {seconds_text(longest)} in each "
            f"step{shards if partition.shard_degree > 1 else ''}",
        )
    yield "Memory", f"{bytes_text(largest(partition))} on the largest rank{cap}"
    yield "Model", ", ".join(_model(partition))
    runs = f", {partition.runs} runs" if partition.runs else ""
    torch = f"torch {partition.fingerprint.torch}"
    yield "Profile", f"{partition.profile} on {partition.device}{runs}, {torch}"
    bandwidth = partition.link.bandwidth
    speed = "no limit" if bandwidth is None else f"{bytes_text(bandwidth)}/s"
    yield "Link", f"{speed}, {seconds_text(partition.link.latency)} ({partition.link.source})"


def title(partition: PartitionFile) -> str:
    """Return the title of a drawing: the model and the duration of its step."""
    each = f" x {partition.virtual_stages}" if partition.virtual_stages > 1 else ""
    return (
        f"{partition.task or 'Model'} in {partition.partitions}{each} stages, "
        f"{partition.microbatches} microbatches, {partition.schedule}: {step_text(partition)}"
    )


def step_text(partition: PartitionFile) -> str:
    """Return a text like "312 ms ± 4.10 ms, 27 % idle"."""
    spread = f" ± {seconds_text(partition.spread)}" if partition.spread else ""
    return f"{seconds_text(partition.step)}{spread}, {partition.timeline.idle * 100:.0f} % idle"


def largest(partition: PartitionFile) -> int:
    """Return the bytes of the rank that needs the most."""
    count = partition.partitions
    by_rank = (partition.stages[rank::count] for rank in range(count))
    return max((sum(each.memory for each in mine) for mine in by_rank), default=0)


def _proof(partition: PartitionFile) -> str:
    """Return what is known about how good the cuts are."""
    if partition.bound is None:
        return "not proven: of an older Launcher, or edited; make the file again"
    if partition.memory_gap:
        more = _percent(partition.memory_gap)
        return f"not proven: a search found them, at most {more} above the least memory"
    if partition.objective == "memory":
        return "proven: no other cuts need less memory on the largest rank" + _step_gap(partition)
    if partition.gap:
        worse = _percent(partition.gap)
        return f"not proven: the best that a search found, at most {worse} above the optimum"
    if partition.regret:
        return f"not proven: by one profile, other cuts are {_percent(partition.regret)} shorter"
    cap = "" if partition.memory_cap is None else " within the memory allowed"
    return f"proven: no other cuts have a shorter step{cap}"


def _step_gap(partition: PartitionFile) -> str:
    if not partition.gap:
        return ""
    return f"; the step is at most {_percent(partition.gap)} above the shortest within it"


def _percent(gap: float) -> str:
    """Return a gap, never rounded down."""
    return f"{math.ceil(gap * 1000 - 1e-6) / 10 or 0.1:.1f} %"


def _model(partition: PartitionFile) -> Iterator[str]:
    yield partition.task or "given in Python"
    yield f"{len(partition.modules)} modules"
    if partition.precision:
        yield partition.precision
    if partition.recomputed:
        yield f"{', '.join(partition.recomputed)} recomputed"


def _key(choice: PartitionChoice) -> tuple[str, int, int]:
    return choice.objective, choice.partitions, choice.microbatches


def _choice(choice: PartitionChoice) -> Iterator[str]:
    yield from map(str, _key(choice))
    if choice.step is None or choice.memory is None:
        yield from ("does not fit", "", "")
    else:
        yield from _costs(choice.step, choice.microbatches, choice.memory)


def _costs(step: float, microbatches: int, memory: int) -> tuple[str, str, str]:
    return seconds_text(step), seconds_text(step / microbatches), bytes_text(memory)


class Partition(PartitionFile):
    """A model's cuts; as text its tables, in a notebook also the drawing of a step."""

    def __str__(self) -> str:
        return "\n\n".join(map(table_text, partition_tables(self)))

    def _repr_html_(self) -> str:
        return partition_html(self)


def partition_tables(partition: PartitionFile) -> list[Table]:
    """Return the table of its stages with notes, and that of the other choices."""
    return [stages(partition), *([choices(partition)] if partition.choices else [])]


def partition_html(partition: PartitionFile) -> str:
    """Return the tables and the drawing of a step."""
    drawn = timeline_svg(partition.timeline, title(partition))
    picture = f'<div style="overflow-x:auto">{drawn}</div>'
    others = table_html(choices(partition)) if partition.choices else ""
    return f"{table_html(stages(partition))}{picture}{others}"
