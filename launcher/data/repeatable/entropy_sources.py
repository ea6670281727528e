"""Patches of the sources of entropy that dataset code may use: they draw from the active stream.

Each source is replaced once in this process and for good; where no dataset code runs, it does what
it did. What lies below the public functions is replaced, so that a name which a module imported
earlier (`from numpy.random import default_rng`) is served, too.
"""

from __future__ import annotations

import _random
import builtins
import ctypes
import functools
import gc
import importlib
import io
import os
import random
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from types import ModuleType
from typing import Any

import numpy.random.bit_generator as numpy_generators

from launcher.data.repeatable.entropy_stream import (
    FORK,
    EntropyStream,
    activate,
    active_stream,
    call_with,
)
from launcher.data.repeatable.generator_states import (
    PYTHON,
    GlobalStates,
    seed_globals,
    seed_of_python,
)
from launcher.data.repeatable.kept_generators import kept_generators
from launcher.data.repeatable.single_thread import limit_loaded

#: Seconds to wait for a task that draws from the global generators; it may wait for another one.
_TASK_PATIENCE = 30.0


@functools.cache
def patch() -> None:
    """Connect Python's and numpy's sources, imports, threads and forks."""
    _patch_random()
    _patch_system_random()
    _patch_numpy()
    _patch_imports()
    _patch_threads()
    _patch_forks()


# Python --------------------------------------------------------------------------------------


class _RandomOfNames(random.Random):
    """The generator of tempfile's names, which the system seeds."""


def _patch_random() -> None:
    tempfile._Random = _RandomOfNames  # type: ignore[attr-defined] # not public

    def seed(generator: _random.Random, value: object = None, /) -> None:
        stream = active_stream()
        if stream is not None and type(generator) is not _RandomOfNames:
            label = repr(value).encode()
            if value is None:
                label = stream.next_label()
                value = int.from_bytes(stream.draw_labelled(label, 8), "little")
            if stream.keeps and generator is not PYTHON:
                kept_generators.record(generator, label)
        seed_of_python(generator, value)

    # random.Random inherits it, and `random.seed` calls it.
    _random.Random.seed = seed  # type: ignore[method-assign]


def _patch_system_random() -> None:
    """Connect random.SystemRandom, but for the instance of `secrets`."""
    numbers: dict[str, Callable[..., object]] = {
        "random": lambda stream: stream.draw_int(53) * 2.0**-53,
        "getrandbits": EntropyStream.draw_int,
        "randbytes": EntropyStream.draw,
    }
    for name, draw in numbers.items():
        original = getattr(random.SystemRandom, name)
        setattr(random.SystemRandom, name, _system_or_drawn(original, draw))


def _system_or_drawn(
    original: Callable[..., object], draw: Callable[..., object]
) -> Callable[..., object]:
    keys = secrets._sysrand  # type: ignore[attr-defined] # not public

    @functools.wraps(original)
    def method(generator: object, *size: int) -> object:
        stream = active_stream()
        if stream is None or generator is keys or (size and size[0] < 0):
            return original(generator, *size)
        return draw(stream, *size)

    return method


@functools.cache
def patch_system() -> None:
    """Connect os.urandom, so `secrets` and uuid4, and os.getrandom for the datasets that ask."""
    os.urandom = _bytes_or_drawn(os.urandom)
    random._urandom = os.urandom  # type: ignore[attr-defined] # of SystemRandom and `secrets`
    if hasattr(os, "getrandom"):  # on Linux
        os.getrandom = _bytes_or_drawn(os.getrandom)


def _bytes_or_drawn(system: Callable[..., bytes]) -> Callable[..., bytes]:
    @functools.wraps(system)
    def draw(size: int, *flags: int, **named: int) -> bytes:
        stream = active_stream()
        if stream is None or not stream.top.seeds_system or size < 0:
            return system(size, *flags, **named)
        return stream.draw(size)

    return draw


# numpy ---------------------------------------------------------------------------------------


def _patch_numpy() -> None:
    """Connect numpy's seed sequences and bit generators, from which all its generators are made."""
    module: Any = numpy_generators
    system_bits = module.randbits

    def randbits(bits: int) -> int:
        if (stream := active_stream()) is None:
            return int(system_bits(bits))
        label = stream.next_label()
        entropy = int.from_bytes(stream.draw_labelled(label, bits // 8), "little")  # whole words
        if stream.keeps:
            kept_generators.record_entropy(entropy, label)
        return entropy

    module.randbits = randbits
    name = "RLock" if hasattr(module, "RLock") else "Lock"  # from numpy 2.3 on, and before
    make_lock = getattr(module, name)

    def lock() -> object:
        made: object = make_lock()
        if (stream := active_stream()) is not None and stream.keeps:
            kept_generators.record_lock(made)
        return made

    setattr(module, name, lock)


# torch ---------------------------------------------------------------------------------------


@functools.cache
def patch_torch() -> Callable[[object, int], object]:
    """Connect torch.Generator.seed, which torch.seed calls; torch has been imported.

    Returns torch.Generator.manual_seed as it was before, which records nothing.
    """
    torch = sys.modules["torch"]
    kind = torch._C.Generator
    methods = gc.get_referents(kind.__dict__)[0]  # a type of C's takes no new attributes
    system_seed = kind.seed
    manual_seed: Callable[[object, int], object] = kind.manual_seed

    def seed(generator: object) -> int:
        if (stream := active_stream()) is None:
            return int(system_seed(generator))
        label = stream.next_label()
        number = int.from_bytes(stream.draw_labelled(label, 8), "little")
        manual_seed(generator, number)
        if stream.keeps and generator is not torch.default_generator:
            kept_generators.record(generator, label)
        return number

    def seed_manually(generator: object, number: int) -> object:
        stream = active_stream()
        if stream is not None and stream.keeps and generator is not torch.default_generator:
            kept_generators.record(generator, repr(number).encode())
        return manual_seed(generator, number)

    methods["seed"] = functools.wraps(system_seed)(seed)
    methods["manual_seed"] = functools.wraps(manual_seed)(seed_manually)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    return manual_seed


# webdataset ----------------------------------------------------------------------------------

_WEBDATASET = "webdataset"
#: Its modules that make generators, and the files from which one of them reads entropy.
_FILTERS, _SHARD_LISTS = f"{_WEBDATASET}.filters", f"{_WEBDATASET}.shardlists"
_DEVICES = ("/dev/random", "/dev/urandom")


def patch_webdataset() -> None:
    """Connect webdataset if it is imported, which seeds its shuffles by process id and clock.

    Its modules get an `os` and a `time` of their own.
    """
    if _SHARD_LISTS in sys.modules:
        _patch_loaded_webdataset()


@functools.cache
def _patch_loaded_webdataset() -> None:
    process = _or_drawn(os.getpid, lambda stream: stream.draw_int(31))
    system = _or_drawn(os.urandom, EntropyStream.draw)
    clock = _or_drawn(time.time, lambda _: 0.0)
    nanoseconds = _or_drawn(time.time_ns, lambda stream: stream.draw_int(31))
    vars(sys.modules[_FILTERS]).update(
        os=_changed(os, getpid=process), time=_changed(time, time=clock)
    )
    vars(sys.modules[_SHARD_LISTS]).update(
        os=_changed(os, getpid=process, urandom=system),
        time=_changed(time, time_ns=nanoseconds),  # its time() measures intervals
        open=_open,
    )


def _or_drawn(
    original: Callable[..., object], draw: Callable[..., object]
) -> Callable[..., object]:
    def function(*arguments: int) -> object:
        stream = active_stream()
        return original(*arguments) if stream is None else draw(stream, *arguments)

    return function


def _changed(module: ModuleType, **functions: object) -> ModuleType:
    """Return a copy of a module with other functions of these names."""
    changed = ModuleType(module.__name__)
    vars(changed).update({**vars(module), **functions})
    return changed


def _open(file: object, *arguments: object, **named: object) -> object:
    if file in _DEVICES and (stream := active_stream()) is not None:
        return io.BytesIO(stream.draw(64))
    real: Callable[..., object] = builtins.open
    return real(file, *arguments, **named)


# Imports -------------------------------------------------------------------------------------


def _patch_imports() -> None:
    """Give each module that dataset code imports entropy of its own, and keep the random states.

    A process imports it once. What it draws then, or sets (`np.random.seed(0)` at its top), would
    change the numbers that follow in that call, and in no call of a process that had it already. An
    import in another thread leaves the states alone, since the call goes on to draw meanwhile.
    """
    bootstrap: Any = importlib._bootstrap  # not public
    find_and_load = bootstrap._find_and_load

    def _find_and_load(name: str, import_: Callable[..., object]) -> object:
        stream = active_stream()
        if stream is None:
            return find_and_load(name, import_)
        states = None if stream.is_beside else GlobalStates.now()
        activate(stream.of_module(name))
        try:
            loaded = find_and_load(name, import_)
            if name == _WEBDATASET:
                patch_webdataset()
            if name == "torch":
                limit_loaded()
            return loaded
        finally:
            activate(stream)
            if states is not None:
                states.restore()

    # Python leaves the frames of this file out of the tracebacks of failed imports.
    code = _find_and_load.__code__.replace(co_filename=find_and_load.__code__.co_filename)
    _find_and_load.__code__ = code
    bootstrap._find_and_load = _find_and_load


# Threads and forks ---------------------------------------------------------------------------


class PoolTasks:
    """The way in which tasks run that dataset code submits to thread pools.

    Side by side, until one of them draws from the global generators, whose numbers would go to the
    tasks in the order in which threads run. From then on one at a time, each with random states of
    its own, while its submitter waits; the sample in which this was found is loaded again.
    """

    def __init__(self) -> None:
        self.are_drawing = False

    def watched(self, stream: EntropyStream, task: Callable[..., object]) -> Callable[..., object]:
        """Return a task that detects whether the global generators are drawn from meanwhile."""

        def run(*arguments: object, **named: object) -> object:
            before = GlobalStates.now()
            try:
                return call_with(stream, task, *arguments, **named)
            finally:
                if not before.are_now():
                    self.are_drawing = True

        return run

    def alone(self, stream: EntropyStream, task: Callable[..., object]) -> Callable[..., object]:
        """Return a task that has the global generators for itself, seeded by its place."""

        def run(*arguments: object, **named: object) -> object:
            states = GlobalStates.now()
            drawn = stream.draw_labelled(stream.path + b"global", 8)
            seed_torch = patch_torch() if "torch" in sys.modules else None
            seed_globals(int.from_bytes(drawn, "little"), seed_torch)
            try:
                return call_with(stream, task, *arguments, **named)
            finally:
                states.restore()

        return run


#: Those of this process.
pool_tasks = PoolTasks()


def _patch_threads() -> None:
    threads: Any = threading.Thread
    pools: Any = ThreadPoolExecutor
    start_thread, submit_task = threads.start, pools.submit

    def start(thread: threading.Thread) -> None:
        if (stream := active_stream()) is not None:
            run = functools.partial(_run, thread, thread.run, stream.start(_kind_of(thread)))
            thread.run = run  # type: ignore[method-assign]
        start_thread(thread)

    def submit(
        pool: ThreadPoolExecutor,
        task: Callable[..., object],
        /,
        *arguments: object,
        **named: object,
    ) -> object:
        if (stream := active_stream()) is None:
            return submit_task(pool, task, *arguments, **named)
        below = stream.start(b"task " + _name_of(task))
        if stream.is_beside or not pool_tasks.are_drawing:
            return submit_task(pool, pool_tasks.watched(below, task), *arguments, **named)
        future = submit_task(pool, pool_tasks.alone(below, task), *arguments, **named)
        wait([future], timeout=_TASK_PATIENCE)
        return future

    threads.start = functools.wraps(start_thread)(start)
    pools.submit = functools.wraps(submit_task)(submit)


def _kind_of(thread: threading.Thread) -> bytes:
    """Return the kind of thread with which a thread is counted: its class, and what it runs.

    Threads that libraries start once in a process, or as they need them, do not change the numbers
    of others.
    """
    return b"thread " + _name_of(type(thread)) + b" " + _name_of(getattr(thread, "_target", None))


def _name_of(code: object) -> bytes:
    """Return a name without the module, which in the script is not what it is on data hosts."""
    while isinstance(code, functools.partial):
        code = code.func
    return str(getattr(code, "__qualname__", type(code).__qualname__)).encode()


def _run(thread: threading.Thread, run: Callable[[], None], stream: EntropyStream) -> None:
    del thread.run  # the class has it
    activate(stream)
    run()


class _Forking(threading.local):
    """The stream for the fork that this thread makes."""

    stream: EntropyStream | None = None


def _patch_forks() -> None:
    forking = _Forking()

    def before() -> None:
        stream = active_stream()
        forking.stream = stream and stream.start(FORK)

    def after_in_parent() -> None:
        forking.stream = None

    os.register_at_fork(
        before=before,
        after_in_parent=after_in_parent,
        after_in_child=lambda: activate(forking.stream),
    )
