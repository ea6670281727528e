"""Habits of training loops, tried on a pipeline of two ranks beside one process."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear, mse_loss

from launcher.parallel import ParallelContext, Pipeline

STEPS = 3
X = torch.rand(STEPS, 2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
ONES = torch.ones(4, 1, dtype=torch.float64)
LOG: list[torch.Tensor] = []
ALPHA = 1.0


# Models -------------------------------------------------------------------------------------


class Layer(nn.Module):
    """Its code may share what it is given with other layers."""

    scale = torch.ones((), dtype=torch.float64)

    def __init__(self, code: Callable[..., Any], shared: Any = None) -> None:
        super().__init__()
        self.linear, self.code, self.shared = nn.Linear(8, 8), code, shared

    def forward(self, x: Any) -> Any:
        return self.code(self.linear(x), self.shared)


def plain(y: Any, shared: Any) -> Any:
    return torch.tanh(y)


def mean(y: Any) -> Any:
    return y.detach().abs().mean()


class Shared:
    mean = torch.zeros((), dtype=torch.float64)


def assigns(y: Any, shared: Any) -> Any:
    shared.mean = mean(y)
    return y


def reads(y: Any, shared: Any) -> Any:
    return y * shared.mean


def puts(y: Any, shared: Any) -> Any:
    shared["mean"] = mean(y).item()
    return y


def gets(y: Any, shared: Any) -> Any:
    return y * shared["mean"]


def fills(y: Any, shared: Any) -> Any:
    shared[0].copy_(mean(y))
    return y


def takes(y: Any, shared: Any) -> Any:
    return y * shared[0]


def sets_class(y: Any, shared: Any) -> Any:
    Layer.scale = mean(y)
    return y


def reads_class(y: Any, shared: Any) -> Any:
    return y * Layer.scale


def draws(y: Any, shared: Any) -> Any:
    return y + torch.rand(y.shape, generator=shared, dtype=y.dtype)


def caches(y: Any, shared: Any) -> Any:
    if y.shape not in shared:
        shared[y.shape] = torch.arange(8, dtype=y.dtype) / 8
    return y * shared[y.shape]


def logs(y: Any, shared: Any) -> Any:
    LOG.append(y.square().mean())
    return y


def borrows(y: Any, shared: Any) -> Any:
    return linear(y, shared[0])


def looks(y: Any, shared: Any) -> Any:
    return y + shared[0].detach().sum()


def two(first: Callable[..., Any], second: Callable[..., Any], shared: Any = None) -> Any:
    return nn.Sequential(
        Layer(first, shared), nn.Linear(8, 8), Layer(second, shared), nn.Linear(8, 1)
    )


def sequential() -> Any:
    return two(plain, plain)


def lends(code: Callable[..., Any]) -> Any:
    model = two(plain, code)
    model[2].shared = [model[0].linear.weight]
    return model


def hooked() -> Any:
    kept: list[Any] = []
    model = sequential()
    model[0].register_forward_hook(lambda module, given, y: kept.append(mean(y)))
    model[2].register_forward_hook(lambda module, given, y: y * kept.pop())
    return model


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.part, self.b = nn.Linear(8, 8), nn.Dropout(0.0), nn.Linear(8, 1)
        self.alpha, self.note = 1.0, 0
        self.logit_scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Any) -> Any:
        y = torch.tanh(self.a(x)) * self.alpha * ALPHA
        return self.b(self.part(y)) * self.logit_scale.exp()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.b.weight = self.a.weight

    def forward(self, x: Any) -> Any:
        return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))


class Marking(nn.Linear):
    """It marks a view of its input, as wav2vec2 does for recomputation."""

    def forward(self, x: Any) -> Any:
        x = x[:, None]
        if self.training and not x.requires_grad:
            x.requires_grad = True
        return super().forward(x)[:, 0]


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)])
        self.head = nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return self.head(x)


# Training -----------------------------------------------------------------------------------


def learn(
    world: ParallelContext,
    make: Callable[[], Any],
    start: str = "2",
    loss: Callable[[Any], Callable[..., Any]] = lambda model: mse_loss,
    *,
    before: Callable[[Any], Any] | None = None,
    during: Callable[[Any, Any, int], Any] | None = None,
    after: Callable[[Any, Any, int], Any] | None = None,
    valid: Callable[[Any], int] | None = None,
    passes: int = 1,
    **options: Any,
) -> float:
    """Train with a habit and return how far off the pipeline is.

    before: makes the optimizer before the model is taken over. during, after: called with model,
    optimizer and step before and after the gradients are computed. passes: batches whose gradients
    are added up by hand before the optimizer steps.
    """
    global ALPHA
    ALPHA = 1.0
    LOG.clear()
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(make().double())
    alone, model = models
    optimizers = [before(each) for each in models] if before else []
    losses = [loss(each) for each in models]
    name = "input" if isinstance(model, nn.Sequential) else "x"
    pipe = Pipeline(
        model, world, starts=[start], example={name: X[0, 0]}, loss=losses[1], valid=valid
    )
    model.__dict__["pipeline"] = pipe
    optimizers = optimizers or [torch.optim.SGD(each.parameters(), 0.1) for each in (alone, pipe)]
    worst = 0.0
    for step in range(STEPS):
        for each, optimizer in zip(models, optimizers, strict=True):
            if during:
                during(each, optimizer, step)
        for _ in range(passes):
            want = sum(losses[0](alone(X[step, k]), ONES) / 2 for k in range(2))
            want.backward()
            got = pipe.step(X[step].flatten(0, 1), target=torch.cat([ONES, ONES]), **options)
        for each, optimizer in zip(models, optimizers, strict=True):
            if after:
                after(each, optimizer, step)
            optimizer.step()
            each.zero_grad()
        worst = max(worst, abs(want.item() - got.item()) - 1e-6)  # it is sent as float32
    theirs = dict(alone.named_parameters(remove_duplicate=False))
    apart = ((each - theirs[name]).abs().max().item() for name, each in pipe.named_parameters())
    return max(worst, *apart)


# Habits -------------------------------------------------------------------------------------


def eval_odd(model: Any, optimizer: Any, step: int) -> None:
    _ = model.eval() if step % 2 else model.train()


def freeze_odd(model: Any, optimizer: Any, step: int) -> None:
    model[1].requires_grad_(step % 2 == 0)


def freeze_stage(model: Any, optimizer: Any, step: int) -> None:
    model[0].requires_grad_(step == 0)
    model[1].requires_grad_(step == 0)


def freeze_but_the_head(model: Any, optimizer: Any, step: int) -> None:
    model.requires_grad_(False)
    model[3].requires_grad_(True)


def decay(model: Any, optimizer: Any, step: int) -> None:
    optimizer.param_groups[0]["lr"] *= 0.5


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.1)


def in_groups(model: Any) -> Any:
    groups = [{"params": model[0].parameters(), "lr": 0.3}, {"params": model[2].parameters()}]
    return torch.optim.AdamW(groups, lr=0.1)


def clamp(model: Any, optimizer: Any, step: int) -> None:
    with torch.no_grad():
        model.logit_scale.clamp_(0, 0.5)


def clamp_data(model: Any, optimizer: Any, step: int) -> None:
    for module in model.children():
        for each in module.parameters():
            each.data.clamp_(-0.2, 0.2)


def set_part(model: Any, optimizer: Any, step: int) -> None:
    model.part.p, model.note = 0.0, step


def hook_inside(model: Any, optimizer: Any, step: int) -> None:
    if step == 1:
        model[2].register_forward_hook(lambda module, given, y: y * 2)


def load_part(model: Any, optimizer: Any, step: int) -> None:
    state = sequential().double()[2].state_dict()
    model[2].load_state_dict({name: torch.full_like(each, 0.01) for name, each in state.items()})


def distil(model: Any) -> Callable[..., Any]:
    teacher = sequential().double()

    def loss(output: Any, target: Any) -> Any:
        with torch.no_grad():
            soft = teacher(X[0, 0])
        return mse_loss(output, soft.clamp(0, 1) * 0 + target)

    return loss


def penalty(model: Any) -> Callable[..., Any]:
    return lambda output, target: (
        mse_loss(output, target) + sum(each.square().sum() for each in model.parameters())
    )


def penalty_of_one(model: Any) -> Callable[..., Any]:
    return lambda output, target: mse_loss(output, target) + model[0].linear.weight.sum()


def penalty_of_the_head(model: Any) -> Callable[..., Any]:
    return lambda output, target: mse_loss(output, target) + model[3].weight.square().sum()


def centred(model: Any) -> Callable[..., Any]:
    centre = nn.Linear(1, 1).double()
    return lambda output, target: mse_loss(centre(output), target)


def logged(model: Any) -> Callable[..., Any]:
    return lambda output, target: mse_loss(output, target) + sum(LOG)


def set_alpha(model: Any, optimizer: Any, step: int) -> None:
    model.alpha = 1.0 + step


def set_global(model: Any, optimizer: Any, step: int) -> None:
    global ALPHA
    ALPHA = 1.0 + step


def new_head(model: Any, optimizer: Any, step: int) -> None:
    model.b = nn.Linear(8, 1).double()


def clip(model: Any, optimizer: Any, step: int) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)


def clip_collected(model: Any) -> Any:
    model.collected = list(model.parameters())
    return sgd(model)


def clip_filtered(model: Any, optimizer: Any, step: int) -> None:
    every = (each for group in optimizer.param_groups for each in group["params"])
    nn.utils.clip_grad_norm_([each for each in every if each.requires_grad], 0.05)


def clip_stages(model: Any, optimizer: Any, step: int) -> None:
    own = vars(model).get("pipeline", model)
    nn.utils.clip_grad_norm_(getattr(own, "module", own).parameters(), 0.05)


def clamped(gradient: Any) -> Any:
    return gradient.clamp(-0.001, 0.001)


def hook_gradients(model: Any) -> Any:
    for each in model.parameters():
        each.register_hook(clamped)
    return sgd(model)


def hook_gradients_late(model: Any, optimizer: Any, step: int) -> None:
    for each in optimizer.param_groups[0]["params"] if step == 1 else ():
        each.register_hook(clamped)


def step_in_backward(model: Any) -> Any:
    def train(parameter: Any) -> None:
        parameter.data.sub_(0.1 * parameter.grad)
        parameter.grad = None

    optimizer = sgd(model)
    for each in model.parameters():
        each.register_post_accumulate_grad_hook(train)
    return optimizer


def clip_list(model: Any, optimizer: Any, step: int) -> None:
    nn.utils.clip_grad_norm_(model.parts.parameters(), 0.05)


def draw_anew(model: Any, optimizer: Any, step: int) -> None:
    for each in (model[0].linear, model[3]):
        nn.init.normal_(each.weight)


def more_dropout(model: Any, optimizer: Any, step: int) -> None:
    model.part.p = 0.5 * (step > 0)


#: Habits that train what one process does.
EXACT: dict[str, dict[str, Any]] = {
    "none": {"make": sequential},
    "a marked input": {
        "make": lambda: nn.Sequential(Marking(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 1))
    },
    "a settled cache": {"make": lambda: two(caches, caches, {})},
    "eval and train": {"make": Norm, "start": "parts.2", "during": eval_odd},
    "freezing": {"make": sequential, "during": freeze_odd},
    "freezing a stage": {"make": sequential, "during": freeze_stage},
    "freezing all but the head": {"make": sequential, "during": freeze_but_the_head},
    "a scheduler": {"make": sequential, "during": decay},
    "an optimizer of before": {"make": sequential, "before": sgd},
    "parameter groups of before": {"make": sequential, "before": in_groups},
    "a clamped temperature": {"make": Scaled, "start": "b", "after": clamp},
    "clipping by value": {
        "make": sequential,
        "before": clip_collected,
        "after": lambda model, *_: nn.utils.clip_grad_value_(model.collected, 0.001),
    },
    "clamped weights": {"make": sequential, "after": clamp_data},
    "attributes of a part": {"make": Scaled, "start": "b", "during": set_part},
    "a conversion to the same": {
        "make": sequential,
        "during": lambda model, *_: model.to("cpu").double(),
    },
    "apply": {"make": sequential, "during": lambda model, *_: model.apply(lambda each: None)},
    "a hook within a stage": {"make": sequential, "during": hook_inside},
    "a part's state": {"make": sequential, "during": load_part},
    "a teacher in the loss": {"make": sequential, "loss": distil},
    "a penalty of the head": {"make": sequential, "loss": penalty_of_the_head},
    "adding up by hand, tied": {"make": Tied, "start": "b", "passes": 2},
    "adding up by hand, valid labels": {"make": sequential, "valid": len, "passes": 2},
    "hooks of gradients": {"make": sequential, "before": hook_gradients},
    "hooks of gradients, later": {"make": sequential, "passes": 2, "during": hook_gradients_late},
}
#: Habits that all ranks refuse, each with the words.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an object": (
        {"make": lambda: two(assigns, reads, Shared())},
        "stage 0 changes 'mean', which stage 1 reads, but ranks have a copy each",
    ),
    "a dict": (
        {"make": lambda: two(puts, gets, {})},
        "stage 0 changes 'shared', which stage 1 reads",
    ),
    "a tensor": (
        {"make": lambda: two(fills, takes, [torch.zeros((), dtype=torch.float64)])},
        "stage 0 changes a tensor that is no buffer, which stage 1 reads",
    ),
    "a class attribute": ({"make": lambda: two(sets_class, reads_class)}, "changes 'scale'"),
    "hooks' closure": ({"make": hooked}, "stage 0 changes a list, which stage 1 reads"),
    "a generator": (
        {"make": lambda: two(draws, draws, torch.Generator().manual_seed(3))},
        "stage 0 changes 'shared', which stage 1 reads",
    ),
    "a loss that reads a log": (
        {"make": lambda: two(logs, plain), "loss": logged},
        "stage 0 changes a list, which stage 1 reads",
    ),
    "a borrowed weight": (
        {"make": lambda: lends(borrows)},
        "stage 1 trains 0.linear.weight by a reference that torch does not know",
    ),
    "a late optimizer": (
        {"make": sequential, "after": lambda model, *_: list(model.named_parameters())},
        "Sequential.named_parameters was called on a model that a pipeline has taken over",
    ),
    "an attribute": (
        {"make": Scaled, "start": "b", "during": set_alpha},
        "'alpha' of the model (Scaled) has changed",
    ),
    "a global": (
        {"make": Scaled, "start": "b", "during": set_global},
        "'ALPHA' of the model (Scaled) has changed",
    ),
    "a new head": (
        {"make": Scaled, "start": "b", "during": new_head},
        "'b' of the model (Scaled) has changed",
    ),
    "clipping": ({"make": sequential, "after": clip}, "Sequential.parameters was called"),
    "clipping what was collected before": (
        {
            "make": sequential,
            "before": clip_collected,
            "after": lambda model, *_: nn.utils.clip_grad_norm_(model.collected, 0.05),
        },
        "is on another rank, in stage ",
    ),
    "clipping what the optimizer has": (
        {"make": sequential, "after": clip_filtered},
        "clip_grad_norm_ would clip the gradients of a pipeline by the norm of this rank's stages",
    ),
    "clipping the stages": (
        {"make": sequential, "after": clip_stages},
        "clip_grad_norm_ would clip the gradients of a pipeline by the norm of this rank's stages",
    ),
    "hooks of gradients that are divided later": (
        {"make": sequential, "before": hook_gradients, "valid": len},
        "has a hook for its gradient, which is divided by the number of valid labels later",
    ),
    "an optimizer in the backward pass": (
        {"make": sequential, "before": step_in_backward},
        "has a hook for its gradient, which would be called for each microbatch",
    ),
    "clipping a list": (
        {"make": Norm, "start": "parts.2", "after": clip_list},
        "ModuleList.parameters was called",
    ),
    "averaging": (
        {"make": sequential, "during": lambda m, *_: torch.optim.swa_utils.AveragedModel(m)},
        "cannot be copied or pickled",
    ),
    "copying": (
        {"make": sequential, "during": lambda model, *_: copy.deepcopy(model)},
        "cannot be copied or pickled",
    ),
    "pickling": (
        {"make": sequential, "during": lambda model, *_: torch.save(model, io.BytesIO())},
        "cannot be copied or pickled",
    ),
    "converting": ({"make": sequential, "during": lambda m, *_: m.half()}, "to() torch.float16"),
    "drawing anew": ({"make": sequential, "during": draw_anew}, "is on another rank"),
    "torch's scaler": (
        {"make": sequential, "scaler": torch.amp.GradScaler("cpu")},
        "a step was given torch's own GradScaler",
    ),
}
#: Habits that one rank refuses, so that the run ends.
ENDING: dict[str, tuple[dict[str, Any], str]] = {
    "a penalty of all": (
        {"make": sequential, "loss": penalty},
        "Sequential.parameters was called on a model that a pipeline has taken over",
    ),
    "a penalty of one": (
        {"make": sequential, "loss": penalty_of_one},
        "0.linear.weight of Sequential is on another rank, in stage 0",
    ),
    "hooks of gradients that are tied": (
        {"make": Tied, "start": "b", "before": hook_gradients},
        "a.weight has a hook for its gradient, which other stages have a part of, since it is tied",
    ),
    "a frozen weight that is borrowed": (
        {"make": lambda: lends(looks)},
        "0.linear.weight of Sequential is on another rank, in stage 0",
    ),
    "a loss with parameters": (
        {"make": sequential, "loss": centred},
        "the loss trains a parameter of shape [1, 1] that is not in the model",
    ),
    "dropout from nothing": (
        {"make": Scaled, "start": "b", "during": more_dropout},
        "stage 0 draws random numbers where it drew none",
    ),
}
