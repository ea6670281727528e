"""Labels that do not count: what is learned is the mean over those that do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from ranks import noted

torch = pytest.importorskip("torch")

_PREAMBLE = """
from launcher.parallel.weights import WeightedLoss

from learning import furthest

ROWS, LENGTH = 4, 9
def rows(step, number):
    '''Of one batch; the later ones have fewer labels that count, and the last has none.'''
    generator = torch.Generator().manual_seed(100 * step + number)
    ids = torch.randint(0, 19, (ROWS, LENGTH), generator=generator)
    labels = torch.randint(0, 19, (ROWS, LENGTH), generator=generator)
    for row in range(ROWS):
        labels[row, : min(LENGTH, 2 * row + 3 * number)] = -100
    return ids, labels

def loss(output, labels):
    return torch.nn.functional.cross_entropy(output, labels.reshape(-1))

def valid(labels):
    return (labels != -100).sum()

def make_optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

def one_process(model):
    optimizer = make_optimizer(model.parameters())
    for step in range(3):
        ids, labels = (torch.cat(parts) for parts in zip(*(rows(step, n) for n in range(4))))
        optimizer.zero_grad()
        loss(model(ids), labels).backward()
        optimizer.step()
    return dict(model.named_parameters(remove_duplicate=False))

torch.manual_seed(0)
model = Gpt(tied=True).double()
reference = one_process(copy.deepcopy(model))
"""

_PIPELINE = """
world = parallel.init(pipeline=2, microbatches=2, accumulation=2)
example = {"ids": rows(0, 0)[0][:2]}
pipeline = Pipeline(
    model, world, starts=("blocks.2",), example=example, loss=loss, valid=valid
)
optimizer = make_optimizer(pipeline.parameters())
replicas = parallel.dp_size()
told = []
for step in range(3):
    optimizer.zero_grad()
    for number in range(4 // replicas):
        ids, labels = rows(step, number * replicas + parallel.dp_rank())
        told.append(pipeline.step(ids, target=labels, is_last=number == 4 // replicas - 1).item())
        with torch.no_grad():
            pipeline.evaluate(ids, target=labels)  # which is no part of a step
    optimizer.step()
note([furthest(pipeline.module.named_parameters(), reference), told])
"""

_REPLICAS = """
world = parallel.init()
replicated = replicate(model, world)
optimizer = make_optimizer(model.parameters())
weighted = WeightedLoss(loss, valid)
for step in range(3):
    optimizer.zero_grad()
    for number in range(2):
        ids, labels = rows(step, 2 * number + parallel.dp_rank())
        with accumulating(replicated, is_last=number == 1):
            weighted(replicated(ids), labels)[0].backward()
    weighted.divide(model.parameters(), world)
    optimizer.step()
note([furthest(model.named_parameters(), reference)])
"""


#: The model computes its loss, of labels that it shifts, as models of Hugging Face do.
_LOSS_IN_THE_MODEL = """
class Causal(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, labels):
        logits = self.model(ids).unflatten(0, ids.shape)
        return {"loss": loss(logits[:, :-1].flatten(0, 1), labels[:, 1:]), "logits": logits}

def one_batch(step):
    return [torch.cat(parts) for parts in zip(*(rows(step, n) for n in range(2)))]

world = parallel.init(pipeline=2, microbatches=4)
model = Causal(model)
alone = copy.deepcopy(model)
pipeline = Pipeline(
    model,
    world,
    starts=("model.blocks.2",),
    example={"ids": rows(0, 0)[0][:2], "labels": rows(0, 0)[1][:2]},
    loss=lambda output, labels: output["loss"],
    valid=lambda labels: (labels[:, 1:] != -100).sum(),
)
optimizers = [make_optimizer(each.parameters()) for each in (alone, pipeline)]
losses = []
for step in range(3):
    ids, labels = one_batch(step)
    for optimizer in optimizers:
        optimizer.zero_grad()
    whole = alone(ids, labels)["loss"]
    whole.backward()
    losses.append([pipeline.step(ids=ids, labels=labels, target=labels).item(), whole.item()])
    for optimizer in optimizers:
        optimizer.step()
reference = dict(alone.named_parameters(remove_duplicate=False))
note([furthest(pipeline.module.named_parameters(), reference), losses])
"""


@pytest.mark.long
def test_labels_count_in_a_loss_of_the_model_as_in_the_full_batch(tmp_path: Path) -> None:
    for furthest, losses in noted(tmp_path, _PREAMBLE + _LOSS_IN_THE_MODEL):
        assert furthest <= 1e-10
        assert all(ours == pytest.approx(whole, rel=1e-6) for ours, whole in losses)


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        pytest.param(_PIPELINE, 2, id="pipeline"),
        pytest.param(_REPLICAS, 2, id="replicas"),
        pytest.param(_PIPELINE, 4, id="replicas of a pipeline", marks=pytest.mark.slow),
    ],
)
def test_uneven_labels_are_learned_as_in_one_process(
    tmp_path: Path, script: str, ranks: int
) -> None:
    for furthest, *told in noted(tmp_path, _PREAMBLE + script, ranks=ranks):
        assert furthest <= 1e-10
        assert told == [] or all(loss == loss for loss in told[0])  # none is NaN without labels


def test_a_batch_without_labels_has_no_gradient() -> None:
    from launcher.parallel import WeightedLoss

    output = torch.ones(3, 4, requires_grad=True)
    labels = torch.full((3,), -100)
    weighted = WeightedLoss(torch.nn.functional.cross_entropy, lambda y: (y >= 0).sum())
    value, weight = weighted(output, labels)
    value.backward()
    assert (value.item(), weight) == (0, 0)
    assert torch.equal(output.grad, torch.zeros(3, 4))


@dataclass
class Output:
    """What a model returns: logits, some of them masked, and scores in 16 bits."""

    logits: torch.Tensor
    scores: torch.Tensor


def test_a_loss_of_no_labels_is_0_for_outputs_of_any_size_and_class() -> None:
    from launcher.parallel import zero_loss

    x = torch.full((3,), 6e4, requires_grad=True)
    masked = x.masked_fill(torch.tensor([True, False, False]), -float("inf"))
    loss = zero_loss(Output(masked, x.half()))
    loss.backward()
    assert loss.item() == 0
    assert x.grad.tolist() == [0, 0, 0]
