"""Recording of a model's forward pass: the calls of its modules and the operations between them.

The forward runs once, on real tensors, so all of Python works in it: keyword arguments, None,
branches on shapes. A module is recorded as one call if it is a layer, if it has hooks, or if its
code cannot be recorded: then whatever was recorded inside is dropped when it returns.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, cast

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from launcher.parallel.tracing.draws import (
    Draw,
    DrawPlace,
    code_of,
    holds_blocks,
    is_uniform,
    may_draw,
)
from launcher.parallel.tracing.nodes import Mark, NodeTable, Taken, Unknown
from launcher.parallel.tracing.preservation import preserved_state, random_state
from launcher.parallel.tracing.python_state import PythonState, hooks
from launcher.parallel.tracing.recorded_operations import (
    CONSTANTS,
    Applied,
    Attribute,
    Modes,
    Operation,
    Same,
    flatten,
)
from launcher.parallel.tracing.writes import Observation, Seen, place

#: Methods that give Python the values of a tensor without an operation that says so.
_ESCAPES = {
    *("tolist", "numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage"),
    *("__contains__", "__set__", "register_hook", "register_post_accumulate_grad_hook", "set_"),
    *("backward", "retain_grad", "__setstate__", "__reduce_ex__", "__deepcopy__"),
}
#: The class whose `apply` that of torch.autograd.Function calls, also by a name bound
#: before, as in `reverse = Reverse.apply`.
_FUNCTION: Any = torch.autograd.function._SingleLevelFunction
#: Functions that may do more, and that make an object whose parts are on the CPU.
_UNCHECKED = {"apply", "_pack_padded_sequence"}
_NOTHING = Taken((), {})
#: Why code is not recorded that uses more of a batch than its shapes.
BY_VALUE = "depends on the values of tensors"
#: Functions that give Python a value, which can be checked to be the same in each batch.
_READS = {"tolist", "item", "__bool__", "__int__", "__float__", "__index__", "__format__"}
_DRAWS = "draws random numbers"
_TORCH = Path(torch.__file__).parent
_HERE = Path(__file__).parents[1]


@dataclass(kw_only=True)
class _Frame:
    """A call of a module that is being recorded.

    call: its number, from 0. taken: its arguments as nodes. mark: the nodes before it. before,
    seen: the state before it. draws: of its own code so far. reason: why it cannot be recorded,
    once that is known.
    """

    module: nn.Module
    path: str
    call: int
    taken: Taken
    is_whole: bool
    before: PythonState
    seen: Seen
    mark: Mark
    draws: int = 0
    reason: str | None = None

    @property
    def draws_are_seeded(self) -> bool:
        """Return whether each draw of its own code is seeded, so that it can be recorded."""
        return not self.path or holds_blocks(self.module)


@dataclass
class Recording:
    """A forward pass. values: of each node, with tensors on the meta device.

    drawing: modules that draw random numbers as a whole, and the names (`code_of`) of code between
    modules that does. changing: modules whose calls change their state, or that of their hooks.
    reasons: for modules that are whole because they cannot be recorded, why. recomputed: modules
    that a checkpoint of torch calls.
    """

    graph: fx.Graph = field(default_factory=fx.Graph)
    values: dict[fx.Node, Any] = field(default_factory=dict)
    drawing: set[str] = field(default_factory=set)
    changing: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    recomputed: set[str] = field(default_factory=set)


class Recorder(TorchFunctionMode):  # type: ignore[misc] # torch types it as Any
    """Records one call of a model.

    whole: modules that are recorded as one call. opened: if given, the only modules that are not.
    checked: modules whose code may use values of a batch, each of which is recorded with a check
        that it is the same in later ones.
    exporting: whether models take the branches that they have for torch.export, which depend on
        shapes instead of values.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        whole: Collection[str] = (),
        opened: Collection[str] | None = None,
        checked: Collection[str] = (),
        exporting: bool = True,
    ) -> None:
        super().__init__()
        self._model = model
        self._exporting = exporting
        self._whole = whole
        self._opened = opened
        self._checked = checked
        self._paths = {id(module): name for name, module in model.named_modules()}
        self.recording = Recording()
        self._frames: list[_Frame] = []
        stack = partial(_stack, self._frames)
        self._nodes = NodeTable(model, self.recording.values, stack)
        self._graph = self.recording.graph = self._nodes.graph
        self._is_busy = self._has_changed = False
        self._calls: Counter[str] = Counter()
        self._decided: dict[int, torch.Tensor] = {}
        self._observation = Observation(())
        self._outside = Modes.now()
        self._random = random_state()

    # The whole call -------------------------------------------------------------------------

    def run(self, arguments: Sequence[tuple[str, torch.Tensor]], call: Callable[[], object]) -> str:
        """Record a call; return why it cannot be recorded, or "". The model's state is restored.

        arguments: the tensors that the call passes to the model, with a name for each.
        """
        for name, tensor in arguments:
            self._nodes.add(self._graph.placeholder(name), tensor)
        root = self._frame(self._model, "")
        self._frames.append(root)
        with preserved_state(self._model, self._on_write) as self._observation:
            with self._patched(), self, _compiling(self._exporting):
                output = call()
            self._look_for_draws()
            if change := root.before.change():
                self._has_changed = True
                self._fail_in(root, f"changes {change} of {type(self._model).__name__}")
            if root.reason is None:
                self._record_output(output)
        self._observation = Observation(())  # a reference cycle would keep activations
        return root.reason or ""

    @property
    def has_changed_attributes(self) -> bool:
        """Return whether a module that is not called as a whole has changed its attributes."""
        return self._has_changed

    def _record_output(self, output: object) -> None:
        try:
            node = self._graph.output(self._nodes.argument(output, is_output=True))
        except Unknown as unknown:
            self._fail(f"returns {unknown}")
            return
        self.recording.values[node] = output

    # Functions of torch ---------------------------------------------------------------------

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run a function, and record it unless it runs inside a module that is whole."""
        given = kwargs or {}
        if self._is_off:
            return func(*args, **given)
        name = getattr(func, "__name__", "")
        if name == "__iter__":
            return iter(torch.Tensor.unbind(*args))
        if name in _ESCAPES and name not in _READS:
            self._fail(BY_VALUE if name[:2] in ("to", "nu", "__") else f"calls Tensor.{name}")
            return func(*args, **given)
        if is_uniform(func, args, given):
            return self._draw_uniform(args, given)
        try:
            taken = self._nodes.taken(args, given)
        except Unknown as unknown:
            if self._is_decided(name, args):
                return self._decide(func, args)
            self._fail(f"passes {unknown} to {name}")
            return func(*args, **given)
        can_be_seeded = may_draw(func, args, given) and self._frames[-1].draws_are_seeded
        if can_be_seeded:
            self._look_for_draws()  # what was drawn before it is not its own
        seen = self._observation.now()
        result = func(*args, **given)
        self._keep_function(func, taken, result, seen, can_be_seeded=can_be_seeded)
        return result

    def _keep_function(
        self,
        func: Callable[..., object],
        taken: Taken,
        result: object,
        seen: Seen,
        *,
        can_be_seeded: bool = False,
    ) -> None:
        """Record a function that has run. seen: what was seen before."""
        now = self._observation.now()
        is_draw = can_be_seeded and now.draws > seen.draws
        if is_draw:
            self._random = random_state()
        elif now.draws > seen.draws:
            self._look_for_draws()
        if self._is_off:  # it drew random numbers, or wrote to the model's state
            return
        leaves, _ = flatten(result)
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        is_read = now.reads > seen.reads or func.__name__ in _READS  # not all are operations
        is_read = now.dynamic > seen.dynamic or (is_read and not tensors)
        if is_read and not self._is_of_batch(func, taken):
            self._fail(BY_VALUE)
        elif "dropout" in func.__name__ and now == seen and _is_first(taken, result):
            self._nodes.bind(result, _first(taken))  # it drops nothing
        elif is_read or tensors or now.writes > seen.writes:
            if not all(isinstance(each, (torch.Tensor, *CONSTANTS)) for each in leaves):
                self._fail(f"uses a {type(result).__name__} that {func.__name__} returned")
                return
            modes = Modes.now()
            if modes.hooks != self._outside.hooks or modes.inference != self._outside.inference:
                self._fail("runs under torch.utils.checkpoint or torch.inference_mode")
                return
            target = _target(func, None if modes == self._outside else modes)
            if is_draw:
                target = self._next_draw(target)
            node = self._graph.call_function(target, *taken)
            node.meta["writes"] = now.writes > seen.writes
            self._nodes.add(node, result)
            if is_read or now.reads > seen.reads:  # code may depend on a value, or a slice's shape
                self._keep_same(node, _line().strip() or func.__name__, leaves, with_shapes=True)

    def _is_of_batch(self, func: Callable[..., object], taken: Taken) -> bool:
        """Return whether the value or shape that a function gives follows from the batch alone.

        Then no step of an optimizer changes it, and a check can stand for it.
        """
        if self._frames[-1].path not in self._checked or func.__name__ in _UNCHECKED:
            return False
        given: list[fx.Node] = []
        fx.node.map_arg(taken, given.append)
        values = ((node, self.recording.values[node]) for node in given)
        tensors = [(node, each) for node, each in values if isinstance(each, torch.Tensor)]
        deciding = [node for node, each in tensors if not each.is_floating_point()]
        return not any(map(self._is_no_number_of_batch, _origins(deciding or given)))

    def _is_no_number_of_batch(self, node: fx.Node) -> bool:
        """Return whether other batches or steps would hardly have the same value of a node."""
        value = self.recording.values.get(node)
        is_data = node.op == "placeholder" and len(self._frames) == 1
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return node.op == "call_module" or isinstance(value, nn.Parameter) or (is_data and is_float)

    def _keep_same(
        self, node: fx.Node, name: str, leaves: Sequence[object], *, with_shapes: bool
    ) -> None:
        """Record a check that a call returns what it returned here."""
        same = Same(name, leaves, with_shapes=with_shapes)
        self._nodes.keep(self._graph.call_function(same, (node,)), None)

    def _next_draw(self, target: Callable[..., object]) -> Draw:
        """Return the next draw of the code that runs."""
        frame = self._frames[-1]
        self.recording.drawing.add(code_of(frame.path))
        frame.draws += 1
        return Draw(target, DrawPlace(frame.path, frame.call, frame.draws - 1))

    def _draw_uniform(self, args: tuple[object, ...], kwargs: dict[str, object]) -> torch.Tensor:
        """Draw a number from [0, 1) that may only be compared with its bounds (no layer drop)."""
        self._look_for_draws()
        drawn: torch.Tensor = torch.rand(*args, **kwargs)
        self._random = random_state()
        self._nodes.add_uniform(drawn)
        return drawn

    def _is_decided(self, name: str, args: Sequence[object]) -> bool:
        """Return whether a comparison of a drawn number has the same outcome for all of them."""
        if name == "__bool__":
            return id(args[0]) in self._decided
        bounds = {"lt": (0, 1), "ge": (0, 1)}.get(name.strip("_"))
        if bounds is None or not self._nodes.is_uniform(args[0]):
            return False
        low, high = bounds
        return isinstance(args[1], (int, float)) and not low < args[1] < high

    def _decide(self, func: Callable[..., object], args: tuple[object, ...]) -> object:
        result = func(*args)
        if isinstance(result, torch.Tensor):
            self._decided[id(result)] = result
        return result

    # Calls of modules -----------------------------------------------------------------------

    def call(
        self,
        original: Callable[..., object],
        module: nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Run a module and record it, or whatever it does."""
        path = self._paths.get(id(module))
        if not path or self._frames[-1].module is module:
            return original(module, *args, **kwargs)
        if self._is_off:
            self._calls[path] += 1  # so that a call has the same number in every recording
            return original(module, *args, **kwargs)
        with self._own_code():
            frame = self._enter(module, path, args, kwargs)
        if frame is None:
            return original(module, *args, **kwargs)
        try:
            with _compiling(self._exporting and not frame.is_whole):
                output = original(module, *args, **kwargs)
        finally:
            self._leave(frame)
        with self._own_code():
            if change := frame.before.change():
                self._has_changed |= not frame.is_whole
                self._fail_in(frame, f"changes {change}")
                self.recording.changing.add(path)
            self._look_for_draws(frame)
            self._frames.pop()
            if _is_closed(frame):
                self._keep_call(frame, output)
        return output

    def _enter(
        self, module: nn.Module, path: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> _Frame | None:
        """Return the frame of a call that begins, or None if it cannot be recorded."""
        try:
            taken = self._nodes.taken(args, kwargs)
        except Unknown as unknown:
            self._fail(f"passes {unknown} to {path}")
            return None
        # Stages call what the model's own code does; another module's checkpoint would draw again.
        is_recomputed = len(self._frames) == 1 and Modes.now().recomputes(self._outside)
        if is_recomputed:
            self.recording.recomputed.add(path)
        elif Modes.now() != self._outside:
            self._fail(f"calls {path} under torch.no_grad, torch.autocast or saved_tensors_hooks")
            return None
        self._look_for_draws()
        is_whole = is_recomputed or self._is_whole(module, path)
        frame = self._frame(module, path, taken, is_whole=is_whole)
        self._frames.append(frame)
        return frame

    @contextlib.contextmanager
    def _own_code(self) -> Iterator[None]:
        """Record nothing within the context."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def _frame(
        self, module: nn.Module, path: str, taken: Taken = _NOTHING, *, is_whole: bool = False
    ) -> _Frame:
        call = self._calls[path]
        self._calls[path] += 1
        return _Frame(
            module=module,
            path=path,
            call=call,
            taken=taken,
            is_whole=is_whole,
            before=PythonState([module], with_children=is_whole),
            seen=self._observation.now(),
            mark=self._nodes.mark(),
        )

    def _leave(self, frame: _Frame) -> None:
        """Forget the frames of calls that an exception has left."""
        while self._frames[-1] is not frame:
            self._frames.pop()

    def _keep_call(self, frame: _Frame, output: object) -> None:
        """Record a module as one call, instead of whatever was recorded inside."""
        if frame.reason is not None:
            self.recording.reasons[frame.path] = frame.reason
        self._nodes.forget_since(frame.mark)
        node = self._graph.call_module(frame.path, *frame.taken)
        leaves, _ = flatten(output)
        node.meta["writes"] = self._has_written(frame)
        self._nodes.keep(node, output, frame.call)
        is_dynamic = self._observation.dynamic > frame.seen.dynamic
        if is_dynamic or not isinstance(output, torch.Tensor):
            self._keep_same(node, frame.path, leaves, with_shapes=is_dynamic)
        self._nodes.bind_parts(node, output)
        strange = [x for x in leaves if not isinstance(x, (torch.Tensor, *CONSTANTS))]
        if strange:
            self._fail(
                f"calls {frame.path}, which returns a {type(strange[0]).__name__}: return tensors, "
                "or set use_cache=False if it is a cache"
            )

    def _has_written(self, frame: _Frame) -> bool:
        """Return whether the call that has just run wrote to a tensor that was passed to it."""
        places: set[int | None] = set()
        fx.node.map_arg(frame.taken, lambda node: places.add(node.meta.get("place")))
        return not places.isdisjoint(self._observation.written[frame.seen.writes :])

    def _is_whole(self, module: nn.Module, path: str) -> bool:
        """Return whether a module is recorded as one call whatever its code does."""
        if self._opened is not None:
            return path not in self._opened
        if path in self._whole or not any(True for _ in module.children()):
            return True
        if "forward" in vars(module):  # it was replaced, for example to recompute activations
            return True
        if any(True for _ in hooks(module)) or isinstance(module, torch.jit.ScriptModule):
            return True
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            return True
        # torch's own layers (attention, LSTM, parametrized ones) are whole; its containers are not.
        is_torch_module = type(module).__module__.startswith("torch.")
        return is_torch_module and not isinstance(module, nn.Sequential)

    # Random numbers and state ---------------------------------------------------------------

    def _look_for_draws(self, frame: _Frame | None = None) -> None:
        """Note which call has drawn random numbers since it was last looked."""
        now = random_state()
        if now != self._random:
            self._random = now
            current = frame or self._frames[-1]
            if current.path:
                self.recording.drawing.add(current.path)
            self._fail_in(current, _DRAWS)

    def _on_write(self, where: int) -> None:
        frame = next((each for each in self._frames if _is_closed(each)), self._frames[-1])
        if frame.path:
            self.recording.changing.add(frame.path)
        self._fail_in(frame, f"changes {self._nodes.names.get(where, 'a tensor of the model')}")

    def _fail_in(self, frame: _Frame, reason: str) -> None:
        if frame.reason is None and not frame.is_whole:
            frame.reason = f"{_line()}{reason}"

    def _fail(self, reason: str) -> None:
        """Note why the innermost call cannot be recorded; nothing inside is, from now on."""
        self._fail_in(self._frames[-1], reason)

    @property
    def _is_off(self) -> bool:
        return self._is_busy or _is_closed(self._frames[-1])

    # Interception ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        """Intercept the calls of modules and of autograd functions."""
        classes = {_owner_of_call(type(module)) for module in self._model.modules()} | {nn.Module}
        before = {each: each.__dict__["__call__"] for each in classes}
        for each, original in before.items():
            type.__setattr__(each, "__call__", self._intercepted(original))
        _FUNCTION.apply = classmethod(self._applied())
        try:
            yield
        finally:
            for each, original in before.items():
                type.__setattr__(each, "__call__", original)
            del _FUNCTION.apply

    def _intercepted(self, original: Callable[..., object]) -> Callable[..., object]:
        def call(module: nn.Module, *args: object, **kwargs: object) -> object:
            return self.call(original, module, args, kwargs)

        return call

    def _applied(self) -> Callable[..., object]:
        def apply(
            function: type[torch.autograd.Function], *args: object, **kwargs: object
        ) -> object:
            original = super(_FUNCTION, function).apply
            if self._is_off:
                return original(*args, **kwargs)
            try:
                with torch._C.DisableTorchFunction():
                    taken = self._nodes.taken(args, kwargs)
            except Unknown as unknown:
                self._fail(f"passes {unknown} to {function.__name__}.apply")
                return original(*args, **kwargs)
            seen = self._observation.now()
            inside = replace(self._frames[-1], is_whole=True)  # its code is not recorded
            self._frames.append(inside)
            try:
                result = original(*args, **kwargs)
            finally:
                self._leave(inside)
                self._frames.pop()
            with torch._C.DisableTorchFunction():
                self._keep_function(function.apply, taken, result, seen)
            return result

        return apply


def _first(taken: Taken) -> fx.Node:
    """Return the first argument of a dropout."""
    return cast(fx.Node, taken.args[0] if taken.args else taken.kwargs["input"])


def _is_first(taken: Taken, result: object) -> TypeGuard[torch.Tensor]:
    """Return whether a dropout has returned its first argument, or a view of it."""
    return isinstance(result, torch.Tensor) and place(result) == _first(taken).meta.get("place")


def _origins(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Return all nodes that some follow from, with themselves."""
    found, waiting = set[fx.Node](), list(nodes)
    while waiting:
        if (node := waiting.pop()) not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _stack(frames: Sequence[_Frame]) -> tuple[tuple[str, int], ...]:
    return tuple((frame.path, frame.call) for frame in frames)


def _is_closed(frame: _Frame) -> bool:
    """Return whether nothing inside a call is recorded."""
    return frame.is_whole or frame.reason is not None


def _target(func: Callable[..., object], modes: Modes | None) -> Callable[..., object]:
    """Return what a node calls for a function of torch."""
    owner = getattr(func, "__self__", None)
    if func.__name__ == "__get__":
        return Attribute(str(getattr(owner, "__name__", "")))
    if func.__name__ == "apply" and isinstance(owner, type):
        return Applied(owner)
    return Operation(func, modes)


def _owner_of_call(kind: type) -> type:
    return next(each for each in kind.__mro__ if "__call__" in vars(each))


@contextlib.contextmanager
def _compiling(is_compiling: bool) -> Iterator[None]:
    """Let models choose the branches that torch.export would see, or not."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = is_compiling
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _line() -> str:
    """Return the line of the model's code that runs, with its file, as "file:line: `code` "."""
    frame = sys._getframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if _TORCH not in path.parents and _HERE not in path.parents:
            code = linecache.getline(str(path), frame.f_lineno).strip()
            return f"{path.name}:{frame.f_lineno}: `{code}` "
        frame = frame.f_back  # type: ignore[assignment]
    return ""
