"""Trains models of a zoo on pipelines and in one process, and compares what they have learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranks import run

#: For each model, on a machine that is busy.
_SECONDS = 300
_SCRIPT = f"""
import copy, warnings
sys.path.append({str(Path(__file__).parent)!r})
warnings.filterwarnings("ignore")
from torch.utils._pytree import tree_leaves
from launcher.errors import ParallelError
from launcher.parallel.cuts import boundaries
from launcher.parallel.pipeline import Pipeline
from launcher.parallel.randomness import Randomness
from launcher.parallel.stages import cut

STEPS = 5
"""
_LEARNING = """
from {zoo} import ZOO

MANY, REPLICAS = {stages}, {replicas}
world = parallel.init(pipeline=MANY, microbatches=MANY)

def loss(output, target):
    if ZOO[name].loss is not None:
        return ZOO[name].loss(output)
    found = getattr(output, "loss", None)
    if found is not None:
        return found
    leaves = [each for each in tree_leaves(output) if torch.is_tensor(each)]
    return sum(each.sin().mean() for each in leaves if each.is_floating_point())

def double(value):
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value

class Alone:
    '''A replica in one process.'''

    def __init__(self, model, example, optimizer):
        self.model = copy.deepcopy(model)
        self.randomness = Randomness(self.model, cut(self.model, (), example)[0].drawing)
        self.optimizer = optimizer(self.model.parameters(), lr=0.01)

    def backward(self, step, replica, parts):
        self.optimizer.zero_grad()
        total = scale = 0.0
        for number, part in enumerate(parts):
            self.randomness.set_position(step=step, replica=replica, microbatch=number)
            value = loss(self.model(**part), None) / len(parts)
            value.backward()
            total += value.item()
            scale += abs(value.item())
        return total, max(scale, 1e-9)

def average(replicas):
    for parameters in zip(*(each.model.parameters() for each in replicas)):
        if any(each.grad is not None for each in parameters):
            given = [0.0 if each.grad is None else each.grad for each in parameters]
            mean = sum(given) / len(given)
            for each in parameters:
                each.grad = mean.clone()

def erase_zeros(replicas, module):
    '''Erase gradients that are zero in theory: AdamW would take steps by rounding errors' signs.'''
    reference = dict(replicas[0].model.named_parameters(remove_duplicate=False))
    given = {{key: each.grad.abs() for key, each in reference.items() if each.grad is not None}}
    least = 1e-12 * max(each.max() for each in given.values())
    for key, own in module.named_parameters():
        if own.grad is not None and key in given:
            own.grad[(given[key] <= least) & (own.grad.abs() <= 2 * least)] = 0
    for replica in replicas:
        for key, each in replica.model.named_parameters(remove_duplicate=False):
            if key in given:
                each.grad[given[key] <= least] = 0

def infinite(error):
    return error if error == error else float("inf")

def learned(name, optimizer):
    torch.manual_seed(0)
    model = ZOO[name].make().double().train()
    torch.manual_seed(1)
    batches = [
        {{key: double(value) for key, value in ZOO[name].arguments().items()}}
        for _ in range(STEPS * REPLICAS * MANY)
    ]
    places = boundaries(model, batches[0])
    starts = [places[len(places) * n // MANY] for n in range(1, MANY)]
    replicas = [Alone(model, batches[0], optimizer) for _ in range(REPLICAS)]
    pipeline = Pipeline(model, world, starts=starts, example=batches[0], loss=loss)
    ours = optimizer(pipeline.parameters(), lr=0.01)
    worst = 0.0
    for step in range(STEPS):
        parts = [[batches.pop(0) for _ in range(MANY)] for _ in range(REPLICAS)]
        expected = [each.backward(step, n, parts[n]) for n, each in enumerate(replicas)]
        average(replicas)
        ours.zero_grad()
        own = parts[world.dp_rank]
        whole = {{key: torch.cat([part[key] for part in own]) for key in own[0]}}
        found = pipeline.step(**whole, target=torch.zeros(MANY)).item()
        erase_zeros(replicas, pipeline.module)
        for each in replicas:
            each.optimizer.step()
        ours.step()
        wanted, scale = expected[world.dp_rank]
        worst = max(worst, infinite(abs(found - wanted) / scale - 3e-7))  # summed as float32
    alone = replicas[world.dp_rank]
    if {evaluates}:
        alone.model.eval()
        pipeline.train(False)
        for number, part in enumerate(own):
            alone.randomness.set_position(step=STEPS, replica=world.dp_rank, microbatch=number)
            with torch.no_grad():
                total = loss(alone.model(**part), None).item() / MANY + (total if number else 0.0)
        found = pipeline.evaluate(**whole, target=torch.zeros(MANY)).item()
        worst = max(worst, infinite(abs(found - total) / max(abs(total), 1e-9) - 3e-7))
    same = dict(remove_duplicate=False)
    reference = dict([*alone.model.named_parameters(**same), *alone.model.named_buffers(**same)])
    where = ""
    for key, own in [*pipeline.module.named_parameters(), *pipeline.module.named_buffers()]:
        other = reference[key].double()
        scale = other.norm().clamp_min(1e-9)
        if key.endswith("running_mean"):  # it may be zero in theory: what counts is the deviation
            scale = torch.maximum(scale, reference[key[:-4] + "var"].sqrt().norm())
        error = infinite(((own.double() - other).norm() / scale).item())
        if error > worst:
            worst, where = error, key
    overall = torch.tensor(worst)
    dist.all_reduce(overall, dist.ReduceOp.MAX)
    if overall > 1e-9 and optimizer is torch.optim.AdamW:
        # Rounding errors of gradients that are zero in theory may be above the bound; in SGD they
        # stay what they are.
        return learned(name, torch.optim.SGD)
    return [worst, where, optimizer.__name__, starts, places]

found = {{}}
for name in {names}:
    try:
        found[name] = learned(name, torch.optim.AdamW)
    except ParallelError as error:
        found[name] = [str(error)]
note(found)
parallel.leave()
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A model's line in the table.

    error: the largest relative difference, of all ranks; None if the model is refused. note: where
    that difference is, the optimizer, and the starts of the stages, or why it is refused. places:
    where a stage can begin.
    """

    model: str
    stages: int
    replicas: int
    error: float | None
    note: str
    places: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.error is not None and self.error <= 1e-9

    def __str__(self) -> str:
        error = "refused" if self.error is None else f"{max(self.error, 0):.1e}"
        return f"| {self.model} | {self.stages} x {self.replicas} | {error} | {self.note} |"


def learn(
    folder: Path,
    zoo: str,
    names: Sequence[str],
    *,
    stages: int,
    replicas: int = 1,
    evaluates: bool = False,
) -> list[Row]:
    """Train models of a zoo, a module here, and print their lines.

    evaluates: whether they are evaluated too, afterwards.
    """
    script = _SCRIPT + _LEARNING.format(
        zoo=zoo, stages=stages, replicas=replicas, names=list(names), evaluates=evaluates
    )
    outcome = run(
        folder / f"{stages} x {replicas}",
        script,
        ranks=stages * replicas,
        patience=_SECONDS * len(names),
    )
    assert outcome.code == 0, outcome.output
    rows = [
        _row(name, [notes[name] for notes in outcome.notes.values()], stages, replicas)
        for name in names
    ]
    print(*rows, sep="\n", flush=True)
    return rows


def check(rows: Sequence[Row]) -> None:
    """Print the share of exact models; reject those that learn something else, or are refused."""
    exact = sum(row.is_exact for row in rows)
    print(f"{exact} of {len(rows)} are exact ({exact / len(rows):.0%})")
    assert [str(row) for row in rows if not row.is_exact] == []


def _row(model: str, of_ranks: list[list[Any]], stages: int, replicas: int) -> Row:
    refusals = [each[0] for each in of_ranks if isinstance(each[0], str)]
    if refusals:
        return Row(model=model, stages=stages, replicas=replicas, error=None, note=refusals[0])
    error, where, optimizer, starts, places = max(of_ranks)
    note = f"{where} | {optimizer} | {', '.join(starts)}"
    return Row(
        model=model,
        stages=stages,
        replicas=replicas,
        error=error,
        note=note,
        places=tuple(places),
    )
