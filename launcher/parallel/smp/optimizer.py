"""`DistributedOptimizer`: an optimizer whose state is spread over a replica's ranks, as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from launcher.errors import ParallelError
from launcher.parallel.smp.distributed_model import DistributedModel
from launcher.parallel.smp.smp_session import session
from launcher.parallel.smp.states import PARTIAL, gathered


class DistributedOptimizer(torch.optim.Optimizer):  # type: ignore[misc] # torch types it as Any
    """Wraps an optimizer of the whole model's parameters, created before the first step.

    Each rank updates the parameters of its own stage: the others have no gradients there.
    static_loss_scale, dynamic_loss_scale and their options have an effect for 16-bit floats only,
    as in smp, and there smp.amp.GradScaler replaces them.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        static_loss_scale: float | None = 1.0,
        dynamic_loss_scale: bool = False,
        **options: object,
    ) -> None:
        is_scaled = static_loss_scale not in (None, 1.0) or dynamic_loss_scale
        if session().part.precision == "fp16" and is_scaled:
            raise ParallelError(
                "smp.DistributedOptimizer does not scale the loss of a job in fp16: use "
                "smp.amp.GradScaler, and leave out static_loss_scale and dynamic_loss_scale"
            )
        if unknown := set(options) - {"dynamic_loss_args"}:
            raise ParallelError(
                f"smp.DistributedOptimizer does not support {', '.join(sorted(unknown))}: leave it "
                "out"
            )
        models = session().models
        if models and models[0].partitioned and session().world.degrees.pipeline > 1:
            raise ParallelError(
                "smp.DistributedOptimizer is created after the first step, when each rank has only "
                "its own stage: create it before the first step"
            )
        self.optimizer = optimizer
        session().optimizers.insert(0, self)

    # Schedulers and scalers read these; torch's own class would keep a second copy.

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the wrapped optimizer."""
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        return groups

    @property
    def state(self) -> Mapping[Any, Any]:
        """The state of the wrapped optimizer."""
        found: Mapping[Any, Any] = self.optimizer.state
        return found

    @property
    def defaults(self) -> dict[str, Any]:
        """The default options of the wrapped optimizer."""
        found: dict[str, Any] = self.optimizer.defaults
        return found

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":  # not yet set, as in a copy
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def __repr__(self) -> str:
        return f"DistributedOptimizer({self.optimizer!r})"

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Update the parameters of this rank's stage."""
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, object]) -> None:
        """Add a group of parameters to the wrapped optimizer."""
        self.optimizer.add_param_group(param_group)

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state for the parameters of this rank's stage."""
        return {**self.optimizer.state_dict(), PARTIAL: True}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for all parameters, as one process has it.

        All ranks of a replica call it.
        """
        mine = self.optimizer.state_dict()
        return {**mine, "state": gathered(mine["state"], session().world)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state of all parameters, or one that `local_state_dict` returned.

        All ranks of a replica call it.
        """
        whole = dict(state_dict)
        if whole.pop(PARTIAL, False):
            whole["state"] = gathered(whole["state"], session().world)
        model: DistributedModel = session().models[0]
        model.when_partitioned(lambda: self._load(whole, model))

    def _load(self, whole: dict[str, Any], model: DistributedModel) -> None:
        own = {id(parameter) for parameter in model.local_parameters()}
        numbers = [number for group in whole["param_groups"] for number in group["params"]]
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        here = {n for n, each in zip(numbers, every, strict=True) if id(each) in own}
        state = {number: value for number, value in whole["state"].items() if number in here}
        self.optimizer.load_state_dict({**whole, "state": state})
