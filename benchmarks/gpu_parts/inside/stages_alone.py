"""Each stage of a model alone on one GPU: its time and peak memory, predicted and measured."""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from gpu_parts.inside.partitioned import PRECISION, decided, profiled, subject_of
from launcher import parallel
from launcher.parallel import Pipeline, Reshaping, Stage, autocasting
from launcher.shared import Link, under_way
from partition_parts.inside.subject import Subject
from trainers_parts.inside.clock import seconds
from trainers_parts.inside.conversation import settings, tell


def main() -> None:
    told = settings()
    count = told["microbatches"]
    world = parallel.init(microbatches=count)
    subject = subject_of(told)
    costs = profiled(subject, world.device)
    cuts = {"partitions": told["stages"], "microbatches": count}
    file = decided(costs, Link(), **cuts)
    whole = decided(costs, Link(), partitions=1, microbatches=count)
    found = []
    for number, predicted in enumerate(file.stages):
        held = under_way(count, told["stages"], number, simple=False)
        stage = _Alone(subject, file.starts, number, world.device, held=held, count=count)
        passed, peak = stage.measure(told["rounds"])
        del stage
        gc.collect()
        torch.cuda.empty_cache()
        found.append(
            {
                "start": predicted.start,
                "predicted_seconds": predicted.forward + predicted.backward,
                "seconds": passed,
                "predicted_bytes": predicted.memory,
                "bytes": peak,
            }
        )
    tell({"stages": found, "whole": _whole(subject, world, whole.step, told["rounds"])})
    parallel.leave()


def _whole(
    subject: Subject, world: parallel.ParallelContext, predicted: float, rounds: int
) -> dict[str, Any]:
    """Time a step of the uncut model, in microbatches."""
    pipeline = Pipeline(
        subject.make(),
        world,
        starts=(),
        example=subject.example,
        loss=subject.loss,
        precision=PRECISION,
    )
    count = world.degrees.microbatches
    inputs, target = (x.to(world.device) for x in subject.batch(subject.samples * count))
    times = []
    for _ in range(rounds + 2):
        passed, _ = seconds(lambda: pipeline.step(inputs, target=target))
        times.append(passed)
    return {"predicted_seconds": predicted, "seconds": statistics.median(times[2:])}


class _Alone:
    """A stage with the microbatches, buffers and optimizer state that it has in a pipeline."""

    def __init__(
        self,
        subject: Subject,
        starts: tuple[str, ...],
        number: int,
        device: torch.device,
        *,
        held: int,
        count: int,
    ) -> None:
        self._subject, self._device, self._held, self._count = subject, device, held, count
        self._casting = autocasting(PRECISION, device)
        self._before = torch.cuda.memory_allocated()
        model = subject.make()
        with self._casting():
            stages = Reshaping(model, starts).stages(subject.example, device)
        self._stage: Stage = stages[number]
        self._is_last = number == len(stages) - 1
        self._stage.module.train()
        self._stage.move(device)
        self._optimizer = torch.optim.AdamW(self._stage.module.parameters())
        self._received = [self._inputs() for _ in range(count)]
        self._returned = [self._gradients() for _ in range(count)]
        self._target = subject.batch(subject.samples)[1].to(device)

    def _inputs(self) -> tuple[torch.Tensor, ...]:
        if not self._stage.inputs:
            return tuple(x.to(self._device) for x in self._subject.example.values())
        return tuple(_filled(value.like, self._device) for value in self._stage.inputs)

    def _gradients(self) -> tuple[torch.Tensor, ...]:
        if self._is_last:
            return ()
        return tuple(
            _filled(value.like, self._device).detach()
            for value in self._stage.outputs
            if value.like.requires_grad
        )

    def measure(self, rounds: int) -> tuple[float, int]:
        """Return the seconds of a microbatch, forward and backward, and the peak bytes of a step.

        The first step creates gradients and optimizer state.
        """
        self._step()
        torch.cuda.reset_peak_memory_stats()
        self._step()
        peak = torch.cuda.max_memory_allocated() - self._before
        times = []
        for number in range(rounds):
            torch.cuda.synchronize()
            began = time.perf_counter()
            self._backward(number % self._count, self._forward(number % self._count))
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        return statistics.median(times), peak

    def _step(self) -> None:
        """One step of 1F1B, with as many microbatches under way as in the pipeline."""
        waiting: list[tuple[int, list[torch.Tensor]]] = []
        for number in range(self._count):
            waiting.append((number, self._forward(number)))
            if len(waiting) == self._held:
                self._backward(*waiting.pop(0))
        while waiting:
            self._backward(*waiting.pop(0))
        self._optimizer.step()
        for parameter in self._stage.module.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()

    def _forward(self, number: int) -> list[torch.Tensor]:
        with self._casting():
            output = self._stage.module(*self._received[number])
            if self._is_last:
                output = self._subject.loss(output, self._target)
        return [leaf for leaf in tree_leaves(output) if leaf.requires_grad]

    def _backward(self, number: int, outputs: list[torch.Tensor]) -> None:
        torch.autograd.backward(outputs, self._returned[number] or None)
        for each in self._received[number]:
            each.grad = None


def _filled(like: torch.Tensor, device: torch.device) -> nn.Parameter | torch.Tensor:
    made = torch.randn(like.shape, device=device).to(like.dtype) * 0.02
    return made.requires_grad_(like.requires_grad)


if __name__ == "__main__":
    main()
