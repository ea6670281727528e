"""Random numbers that depend on the module that draws them, not on the process that runs it.

Otherwise dropout would drop different elements in a pipeline than in one process, and again with
another number of stages. Each call of a module that draws random numbers is seeded by the step, the
replica, the microbatch, the module's name and the number of its earlier calls in that microbatch.
So is each draw of the code between modules, with the number of its earlier ones in that call.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from launcher.parallel.tracing import Draw, DrawPlace, is_code, may_draw

_NONE: Mapping[str, int] = MappingProxyType({})


class Randomness:
    """Seeds the modules of a model, or of a stage, that draw random numbers.

    drawing: names of those modules, and of the code between modules that draws (`draws.code_of`).
        seed: the base seed of all.
    """

    def __init__(self, model: nn.Module, drawing: Iterable[str], seed: int = 0) -> None:
        self._seed = seed
        self._position: tuple[int, int, int] = (0, 0, 0)
        self._calls: Counter[str] = Counter()
        self._outside: list[_States] = []
        #: The calls that draw, the innermost last; None for one that is seeded as a whole.
        self._running: list[_Code | None] = []
        self._is_paused = False
        for name in drawing:
            module = model.get_submodule(name.removesuffix("."))
            if is_code(name):
                self._follow_code(module, name.removesuffix("."))
                continue
            module.register_forward_pre_hook(self._enter(name, of_all=not _is_torch_module(module)))
            module.register_forward_hook(self._leave, always_call=True)

    def set_position(
        self, *, step: int, replica: int, microbatch: int, earlier: Mapping[str, int] = _NONE
    ) -> None:
        """Set the step, replica and microbatch that the following calls belong to.

        earlier: number of calls of each module in earlier stages of this microbatch.
        """
        self._position = (step, replica, microbatch)
        self._calls = Counter({name.removesuffix("."): calls for name, calls in earlier.items()})

    def seed_draws(self, graph: fx.Graph) -> None:
        """Seed also the draws of the code between modules that are in a stage's graph."""
        for node in graph.nodes:
            if isinstance(node.target, Draw):
                node.target.seeding = self._seeding

    @contextlib.contextmanager
    def _seeding(self, place: DrawPlace) -> Iterator[None]:
        if self._is_paused:
            yield
            return
        outside = _States(of_all=False)
        _seed(_seed_of((self._seed, *self._position, *place)), of_all=False)
        try:
            yield
        finally:
            outside.restore()

    def _follow_code(self, module: nn.Module, name: str) -> None:
        """Seed the draws of a module's own code, in its calls."""

        def enter(module: nn.Module, arguments: object) -> None:
            if self._is_paused:
                return
            code = _Code(name, self._calls[name], self._draw)
            self._calls[name] += 1
            self._running.append(code)
            code.__enter__()

        def leave(module: nn.Module, arguments: object, output: object) -> None:
            if not self._is_paused and (code := self._running.pop()) is not None:
                code.__exit__(None, None, None)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave, always_call=True)

    def _draw(self, code: _Code, call: Callable[[], object]) -> object:
        """Call a function of torch that may draw; seed it if a module's own code calls it."""
        if self._running[-1] is not code:  # a module that it calls draws
            return call()
        with self._seeding(DrawPlace(code.module, code.call, code.draws)):
            before = torch_states()
            result = call()
            pairs = zip(before, torch_states(), strict=True)
            code.draws += not all(torch.equal(*pair) for pair in pairs)
        return result

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the generators alone within the context."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def _enter(self, name: str, *, of_all: bool) -> Any:
        def enter(module: nn.Module, arguments: object) -> None:
            if self._is_paused:
                return
            self._outside.append(_States(of_all=of_all))
            self._running.append(None)
            key = (self._seed, *self._position, name, self._calls[name])
            self._calls[name] += 1
            _seed(_seed_of(key), of_all=of_all)

        return enter

    def _leave(self, module: nn.Module, arguments: object, output: object) -> None:
        if not self._is_paused:
            self._outside.pop().restore()
            self._running.pop()


class _Code(TorchFunctionMode):  # type: ignore[misc] # torch types it as Any
    """A call of a module whose code draws: passes its calls of functions that may draw to `draw`.

    draws: how many have drawn so far.
    """

    def __init__(
        self, module: str, call: int, draw: Callable[[_Code, Callable[[], object]], object]
    ) -> None:
        super().__init__()
        self.module = module
        self.call = call
        self.draws = 0
        self._draw = draw

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        call = functools.partial(func, *args, **(kwargs or {}))
        return self._draw(self, call) if may_draw(func, args, kwargs or {}) else call()


@contextlib.contextmanager
def seeded(*key: object) -> Iterator[None]:
    """Seed the generators by a key within the context, and restore them afterwards."""
    outside = _States(of_all=True)
    seed_from(*key)
    try:
        yield
    finally:
        outside.restore()


def _is_torch_module(module: nn.Module) -> bool:
    """Return whether all its modules are torch's own; such layers use only torch's generators."""
    return all(type(each).__module__.startswith("torch.nn.") for each in module.modules())


def torch_states() -> list[torch.Tensor]:
    """Return the states of torch's generators: of the CPU, and of all GPUs."""
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *devices]


class _States:
    """Random states of this process. of_all: include Python's and numpy's, which takes longer."""

    def __init__(self, *, of_all: bool) -> None:
        self._others = (random.getstate(), np.random.get_state()) if of_all else None
        self._torch, *self._devices = torch_states()

    def restore(self) -> None:
        if self._others is not None:
            python, numpy_state = self._others
            random.setstate(python)
            np.random.set_state(numpy_state)
        torch.set_rng_state(self._torch)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)


def seed_from(*position: object) -> None:
    """Seed this process's generators by a position in the training, reproducibly."""
    _seed(_seed_of(position), of_all=True)


def _seed_of(key: tuple[object, ...]) -> int:
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _seed(seed: int, *, of_all: bool) -> None:
    if of_all:
        random.seed(seed)
        np.random.seed((seed ^ seed >> 32) & 0xFFFFFFFF)
    # torch.manual_seed would also record the stack for each kind of device that is not in use:
    # at least 0.2 ms a call (torch 2.13).
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
