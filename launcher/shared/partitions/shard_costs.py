"""Costs of a model whose stages are shared by several replicas (FSDP2), as each rank has them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from launcher.shared.partitions.stage_costs import Joint, Link, ModuleCost, Tie
from launcher.shared.partitions.stage_predictions import CostedModel
from launcher.shared.rank_memory import StageState


@dataclass(frozen=True, kw_only=True)
class RankCosts:
    """The costs of a model for a rank: a `CostedModel`."""

    modules: tuple[ModuleCost, ...]
    joints: tuple[Joint, ...]
    ties: tuple[Tie, ...]
    link: Link
    replicas: int


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """The way in which replicas share stages.

    gathers: how often a block is gathered for a microbatch, forward and backward: once each, or, if
    blocks stay gathered during a step, once for all microbatches.
    """

    shard_degree: int
    keep_gathered: bool = False
    gathers: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of_schedule(cls, shard_degree: int, schedule: str, microbatches: int) -> Sharing:
        """Return the way of a schedule, by its name."""
        if schedule != "zero_bubble":
            return cls(shard_degree=shard_degree)
        gathers = (1 / max(microbatches, 1), 0.0)
        return cls(shard_degree=shard_degree, keep_gathered=True, gathers=gathers)

    def per_rank(self, model: CostedModel) -> CostedModel:
        """Return a model's costs for each rank; the model itself if nothing is shared."""
        if self.shard_degree == 1:
            return model
        modules = tuple(self._module(each, model.link) for each in model.modules)
        return RankCosts(
            modules=modules,
            joints=tuple(_joint(each, model.modules, modules) for each in model.joints),
            ties=model.ties,
            link=model.link,
            replicas=model.replicas,
        )

    def _module(self, module: ModuleCost, link: Link) -> ModuleCost:
        is_in_block = module.block > 0 and not self.keep_gathered
        whole = StageState(
            parameters=module.parameters,
            gradients=module.gradients,
            states=module.states,
            rest=0 if is_in_block else module.parameters,
        )
        held = whole.on_rank(self.shard_degree)
        messages = module.parameters / module.block if module.block else 1.0
        gather = link.all_gather(module.parameters, self.shard_degree, messages)
        return dataclasses.replace(
            module,
            forward=module.forward + self.gathers[0] * gather,
            backward=module.backward + self.gathers[1] * gather,
            parameters=held.parameters,
            gradients=held.gradients,
            states=held.states,
            update=module.update / self.shard_degree,
            passing=module.passing + (2 * module.block if is_in_block else 0),
        )


def _joint(joint: Joint, whole: tuple[ModuleCost, ...], shared: tuple[ModuleCost, ...]) -> Joint:
    """Return what a pair of modules shares, in proportion to what a rank has of the first."""
    if not 0 <= joint.first < len(whole) or not whole[joint.first].held:
        return joint
    share = shared[joint.first].held / whole[joint.first].held
    return dataclasses.replace(joint, held=round(joint.held * share))
