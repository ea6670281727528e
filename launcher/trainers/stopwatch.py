"""Measures how long a rank computes, apart from its waits for other ranks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.autograd import Variable
from torch.utils._pytree import tree_leaves

from launcher.parallel import ParallelContext


class Stopwatch:
    """Measures computation and communication in selected steps.

    A backward pass begins when a gradient reaches the loss or a stage's output, and ends when
    autograd has nothing left to compute. After that, DDP waits for its last gradients and a stage
    waits for the gradients of the next one; both waits are excluded. Shards are gathered within the
    passes, and "zero_bubble" splits the backward pass in two, so computing
    and waiting cannot be separated there. With a GPU, each mark waits until the GPU has finished
    its work, which is why not every step is measured.
    """

    def __init__(self, world: ParallelContext) -> None:
        self.world = world
        is_sharded = world.job.sharded or world.degrees.shard_degree > 1
        self._is_separable = not (is_sharded or world.job.schedule == "zero_bubble")
        self._depth = 0
        self._in_backward = False
        self._since = 0.0
        self.is_on = False
        self._compute = 0.0

    def start(self) -> None:
        """Start measuring a step."""
        self.is_on, self._compute = True, 0.0

    def stop(self) -> None:
        """Stop measuring."""
        self.is_on = False

    def shares(self, seconds: float) -> dict[str, float | None]:
        """Split a step's seconds into computation and communication, by their names in the log."""
        if not self._is_separable:
            return {"compute": round(seconds, 6), "communication": None}
        rest = max(0.0, seconds - self._compute)
        return {"compute": round(self._compute, 6), "communication": round(rest, 6)}

    def now(self) -> float:
        """Return the time in seconds; while measuring, wait for the device first."""
        if self.is_on and self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)
        return time.perf_counter()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Measure other computation, such as the optimizer's step."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    def attach(self, module: nn.Module) -> None:
        """Measure a model or a stage."""
        module.register_forward_pre_hook(lambda *_: self._begin())
        module.register_forward_hook(lambda _, __, output: self._on_forward_end(output))

    def watch_backward(self, tree: object) -> None:
        """Measure the backward pass that starts at the tensors of a tree, in a measured step."""
        for leaf in tree_leaves(tree):
            if self.is_on and isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.register_hook(self._on_first_gradient)

    def _on_forward_end(self, output: object) -> None:
        self._end()
        self.watch_backward(output)

    def _on_first_gradient(self, _: torch.Tensor) -> None:
        if not self._in_backward:
            self._in_backward = True
            self._begin()
            # Callbacks run after this backward pass in their order. DDP's callback, which waits for
            # the other replicas, is queued later, at the last gradient.
            Variable._execution_engine.queue_callback(self._on_backward_end)

    def _on_backward_end(self) -> None:
        self._in_backward = False
        self._end()

    def _begin(self) -> None:
        """Begin a period; one nested in another (recomputed activations) is part of it."""
        if self.is_on and not self._depth:
            self._since = self.now()
        self._depth += 1

    def _end(self) -> None:
        self._depth -= 1
        if self.is_on and not self._depth:
            self._compute += self.now() - self._since
