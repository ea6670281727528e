"""Stages that a script wrote: a pipeline of them learns what one process learns that calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import noted, run

pytest.importorskip("torch")

_STAGES = """
from torch.utils.checkpoint import checkpoint
from learning import Course, furthest, in_one_process, norms_apart, state_of

class Embedding(nn.Module):
    '''Nothing of it can be traced: it depends on values, packs, and hooks a tensor.'''
    def __init__(self):
        super().__init__()
        self.table, self.calls = nn.Embedding(19, 12), 0
    def forward(self, ids, *, scale):
        hidden, mask = self.table(ids) * scale, ids > 5
        self.calls += 1
        packed = hidden[mask].tanh()
        hidden = hidden.clone()
        hidden[mask] = packed
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: gradient * 0.5)
        return (hidden * 2 if bool(mask.any()) else hidden), mask

class Body(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.3)) for _ in range(2)
        )
        self.register_buffer("seen", torch.zeros(()))
    def forward(self, hidden, mask):
        self.seen += 1
        for layer in self.layers:
            hidden = hidden + checkpoint(layer, hidden, use_reentrant=False)
        return [hidden, mask]

class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 12).requires_grad_(False)
    def forward(self, hidden, mask):
        with torch.no_grad():
            shift = self.layer(hidden)
        return hidden + shift, mask

class Head(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.weight = table.weight
    def forward(self, hidden, mask):
        return nn.functional.linear(hidden.sum(1) / mask.sum(1, keepdim=True).add(1), self.weight)

def stages():
    torch.manual_seed(0)
    first = Embedding()
    return [each.double() for each in (first, Body(), Frozen(), Head(first.table))]

class ByHand(nn.Module):
    def __init__(self):
        super().__init__()
        for number, stage in enumerate(stages()):
            self.add_module(str(number), stage)
    def forward(self, ids, scale):
        first, body, frozen, head = self.children()
        return head(*frozen(*body(*first(ids, scale=scale))))

def loss(output, target):
    return output.sin().mean() * target.mean()
"""

_LEARNED = """
world = parallel.init(pipeline={ranks}, virtual_stages={virtual}, microbatches=4{more})
generator = torch.Generator().manual_seed(7)
replicas = parallel.dp_size()
count = 3 * 4 * replicas
ids = [torch.randint(0, 19, (2, 5), generator=generator) for _ in range(count)]
given = [{{"ids": each, "scale": 3.0}} for each in ids]
targets = [torch.full((2,), 1.0 + n / 7).double() for n in range(count)]
lessons = Course(
    given=given, targets=targets, loss=loss, microbatches=4, clip=0.05, replicas=replicas
)
alone = ByHand()
theirs = in_one_process(lessons, alone, torch.optim.AdamW(alone.parameters(), lr=0.01))
pipeline = Pipeline(stages(), world, example=given[0], loss=loss, schedule="{schedule}")
optimizer = torch.optim.AdamW(pipeline.parameters(), lr=0.01)
norms = []
for step in lessons.steps:
    optimizer.zero_grad()
    part = lessons.part(step, parallel.dp_rank(), 0)
    ids = torch.cat([each["ids"] for each in given[part]])
    pipeline.step(ids=ids, scale=3.0, target=torch.cat(targets[part]))
    norms.append(pipeline.clip(lessons.clip).item())
    optimizer.step()
named = [*pipeline.module.named_parameters()]
if replicas == 1:
    named += pipeline.module.named_buffers()
worst = max(norms_apart(norms, theirs.norms), furthest(named, state_of(alone)))
calls = [each.calls for each in pipeline.module.modules() if hasattr(each, "calls")]
pipeline.eval()
ids = given[0]["ids"].repeat(4, 1)
told = pipeline.evaluate(ids=ids, scale=3.0, target=torch.ones(8).double()).item()
alone.eval()
with torch.no_grad():
    expected = loss(alone(given[0]["ids"], 3.0), torch.ones(2).double()).item()
note([worst, abs(told / expected - 1), sorted(dict(named)), calls])
"""


@pytest.mark.parametrize(
    ("ranks", "virtual", "schedule", "more", "processes"),
    [
        pytest.param(1, 1, "simple", "", 1, id="one rank"),
        pytest.param(2, 1, "interleaved", "", 2, id="two ranks"),
        pytest.param(2, 2, "interleaved", "", 2, id="virtual stages", marks=pytest.mark.long),
        pytest.param(2, 1, "zero_bubble", "", 2, id="zero bubble", marks=pytest.mark.long),
        pytest.param(2, 1, "simple", "", 4, id="replicas", marks=pytest.mark.long),
        pytest.param(2, 1, "simple", ", shard_degree=2", 4, id="shards", marks=pytest.mark.long),
    ],
)
def test_written_stages_learn_what_one_process_does(
    tmp_path: Path, ranks: int, virtual: int, schedule: str, more: str, processes: int
) -> None:
    script = _STAGES + _LEARNED.format(ranks=ranks, virtual=virtual, schedule=schedule, more=more)
    for worst, evaluated, names, calls in noted(tmp_path, script, ranks=processes):
        assert worst <= 1e-10
        assert evaluated <= 1e-6  # which is told as float32
        assert {name.split(".")[0] for name in names} <= {"0", "1", "2", "3"}
        assert calls in ([], [12])  # once for each of 4 microbatches in 3 steps


_REFUSED = """
world = parallel.init(pipeline=2, microbatches=2)
given = {"ids": torch.zeros(2, 5, dtype=torch.long), "scale": 3.0}

def made(*stages, **options):
    Pipeline(list(stages), world, example=given, loss=loss, **options)

first, body, frozen, head = stages()
note({
    "count": refused(made, first, body, head),
    "twice": refused(made, first, body, frozen, body),
    "kind": refused(made, first, print),
    "empty": refused(made),
    "starts": refused(made, first, body, starts=["7"]),
    "arguments": refused(Pipeline, stages(), world, example={"x": given["ids"]}, loss=loss),
    "shared": refused(made, Counting(), Counting()),
})
"""

_SHARED = """
shared = [0]
class Counting(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)
    def forward(self, ids, scale=1.0):
        shared[0] += 1
        return super().forward(ids[:, :4] * 1.0)
"""


def test_stages_that_make_no_pipeline_are_refused(tmp_path: Path) -> None:
    words = run(tmp_path, _STAGES + _SHARED + _REFUSED, ranks=2).notes[0]
    assert (
        "the list has 3 stages, and the pipeline 2: give as many, or a multiple" in words["count"]
    )
    assert "stages 1 and 3 are one module: make two" in words["twice"]
    assert "stage 1 is a builtin_function_or_method, not a module" in words["kind"]
    assert "the list of stages is empty" in words["empty"]
    assert "starts is given with a list of stages" in words["starts"]
    assert "ids" in words["arguments"]
    assert "stage 0 changes a list, which stage 1 reads, but ranks have a copy" in words["shared"]
