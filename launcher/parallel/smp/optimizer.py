"""`DistributedOptimizer`: an optimizer whose state is spread over a replica's ranks, as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from launcher.errors import ParallelError
from launcher.parallel.precision import scaler
from launcher.parallel.smp.distributed_model import DistributedModel
from launcher.parallel.smp.smp_session import session
from launcher.parallel.smp.states import PARTIAL, gathered

#: The key of the scaler's state in that of the optimizer.
_SCALER = "loss_scaler"
#: Options of smp's dynamic loss scale that a GradScaler does not have, and that are accepted.
_NOT_SCALING = ("min_scale", "delayed_shift", "consecutive_hysteresis")


class DistributedOptimizer(torch.optim.Optimizer):  # type: ignore[misc] # torch types it as Any
    """Wraps an optimizer of the whole model's parameters, created before the first step.

    Each rank updates the parameters of its own stage: the others have no gradients there.
    static_loss_scale, dynamic_loss_scale and dynamic_loss_args have an effect in fp16 only, as in
    smp: losses are then scaled in steps, and gradients unscaled in `step`, which skips the update
    if one of them is not finite.

    scaler: scales the losses of steps; None without a loss scale. overflow: true if the latest
        `step` skipped its update.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        static_loss_scale: float | None = 1.0,
        dynamic_loss_scale: bool = False,
        **options: object,
    ) -> None:
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
        self._static_scale = None if dynamic_loss_scale else static_loss_scale
        is_scaled = dynamic_loss_scale or static_loss_scale not in (None, 1.0)
        self.scaler: ShardedGradScaler | None = None
        if is_scaled and session().part.precision == "fp16":
            scaling = {} if self._static_scale is None else {"init_scale": self._static_scale}
            scaling |= _scaling(options.get("dynamic_loss_args")) if dynamic_loss_scale else {}
            self.scaler = scaler(session().world, **scaling)
        self.overflow = False
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
        if self.scaler is None:
            return self.optimizer.step(closure)
        before = self.scaler.get_scale()
        returned = self.scaler.step(self.optimizer)
        self.scaler.update()
        self.overflow = self.scaler.get_scale() < before
        if self._static_scale is not None:
            self.scaler.update(self._static_scale)
        return returned

    @property
    def loss_scale(self) -> float:
        """The factor of losses in the next step; 1 without a loss scale."""
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    def clip_master_grads(self, max_norm: float) -> torch.Tensor:
        """Unscale the gradients and clip them by the norm of the whole model, before `step`."""
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        model: DistributedModel = session().models[0]
        return model.clip_grad_norm_(max_norm)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, object]) -> None:
        """Add a group of parameters to the wrapped optimizer."""
        self.optimizer.add_param_group(param_group)

    def local_state_dict(self, gather_if_shard: bool = True) -> dict[str, Any]:
        """Return the state for the parameters of this rank's stage.

        gather_if_shard: accepted; the state is not sharded.
        """
        return {**self.optimizer.state_dict(), **self._scale_state(), PARTIAL: True}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for all parameters, as one process has it.

        All ranks of a replica call it.
        """
        mine = self.optimizer.state_dict()
        return {**mine, **self._scale_state(), "state": gathered(mine["state"], session().world)}

    def _scale_state(self) -> dict[str, Any]:
        return {} if self.scaler is None else {_SCALER: self.scaler.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state of all parameters, or one that `local_state_dict` returned.

        All ranks of a replica call it.
        """
        whole = dict(state_dict)
        scale = whole.pop(_SCALER, None)
        if scale and self.scaler is not None:
            self.scaler.load_state_dict(scale)
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


def _scaling(options: object) -> dict[str, Any]:
    """Return smp's dynamic_loss_args as options of a GradScaler.

    Raises ParallelError for unknown ones.
    """
    given = dict(options) if isinstance(options, Mapping) else {}
    if unknown := set(given) - {"init_scale", "scale_factor", "scale_window", *_NOT_SCALING}:
        raise ParallelError(
            f"smp.DistributedOptimizer does not support {', '.join(sorted(unknown))} in "
            "dynamic_loss_args: leave it out"
        )
    found = {"init_scale": given.get("init_scale"), "growth_interval": given.get("scale_window")}
    if factor := given.get("scale_factor"):
        found |= {"growth_factor": factor, "backoff_factor": 1 / factor}
    return {name: value for name, value in found.items() if value is not None}
