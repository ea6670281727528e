"""One thread for numerical libraries while dataset code runs in the script's process.

Data workers run one process for each CPU, so their libraries use one thread. A sum, a product of
matrices or a convolution on two threads adds in another order and differs in its last bits. While
this process imports, builds or reads a dataset, torch, OpenBLAS, MKL and OpenMP therefore use one
thread here, too. Only `copying_threads` lets torch stack large samples with more.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from launcher.data.batches import torch_threads

#: The functions of a library that return and set its number of threads.
_FUNCTIONS = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("omp_get_max_threads", "omp_set_num_threads"),
)
_T = TypeVar("_T")
_LIBRARY = re.compile(r"(/\S*(?:openblas|mkl_rt|libgomp|libomp|libiomp)[^\s/]*)$", re.MULTILINE)
_TORCH = "torch"

_Functions = tuple[Callable[[], int], Callable[[int], object]]


class OneThread:
    """A context in which numerical libraries use one thread, for use again and again.

    It may be entered within itself.
    """

    def __init__(self) -> None:
        self._modules = 0
        self._libraries: dict[str, _Functions] = {}
        self._before: dict[str, int] = {}  # threads of each library that is limited now
        self._depth = 0
        self._copying = 1

    def __enter__(self) -> OneThread:
        self._depth += 1
        if self._depth == 1:
            self._copying = torch_threads.get()
            _entered.append(self)
        self.limit_loaded()
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        _entered.remove(self)
        torch_threads.set(self._copying)
        while self._before:  # the latest first: torch's number is that of its OpenMP, too
            name, count = self._before.popitem()
            _change(*self._libraries[name], count)
        limit_loaded()  # if another one is still entered

    def call(self, function: Callable[[], _T]) -> _T:
        """Call a function within this context; again if it loads a library, which has its threads.

        So a batch is the same whether this process had the library before or not.
        """
        result = function()
        return function() if self.limit_loaded() else result

    def limit_loaded(self) -> bool:
        """Limit the libraries that have been loaded meanwhile; return whether there are any."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._libraries = dict(_libraries())
        if len(self._before) == len(self._libraries):
            return False
        for name, functions in self._libraries.items():
            if name not in self._before:
                self._before[name] = _change(*functions, 1)
                if name == _TORCH and self._before[name] > 1:
                    torch_threads.set(self._before[name])
        return True


#: Those that this process has entered, the latest last.
_entered: list[OneThread] = []


def limit_loaded() -> None:
    """Limit what dataset code has loaded just now, if this process limits it."""
    for latest in _entered[-1:]:
        latest.limit_loaded()


def _change(get_count: Callable[[], int], set_count: Callable[[int], object], count: int) -> int:
    """Set a number of threads where it differs, and return the one before."""
    before = get_count()
    if before != count:
        set_count(count)
    return before


def _libraries() -> Iterator[tuple[str, _Functions]]:
    """Yield torch, which changes others with its own, and then the libraries below it, by name."""
    if (torch := sys.modules.get(_TORCH)) is not None and hasattr(torch, "set_num_threads"):
        yield _TORCH, (torch.get_num_threads, torch.set_num_threads)
    yield from _loaded_libraries()


def _loaded_libraries() -> Iterator[tuple[str, _Functions]]:
    """Yield the libraries with threads that this process has loaded, by path."""
    for path, library in _opened_libraries():
        for get_name, set_name in _FUNCTIONS:
            if hasattr(library, get_name) and hasattr(library, set_name):
                yield path, (getattr(library, get_name), getattr(library, set_name))
                break


def _opened_libraries() -> Iterator[tuple[str, ctypes.CDLL]]:
    try:
        loaded = set(_LIBRARY.findall(Path("/proc/self/maps").read_text()))
    except OSError:  # no Linux
        return
    for path in sorted(loaded):
        with contextlib.suppress(OSError):
            yield path, ctypes.CDLL(path)


def end_idle_threads() -> None:
    """End the threads of OpenBLAS, for a fork that has set their number to 1.

    To set it starts again those that the fork did not inherit, and each then keeps a CPU busy for
    some 30 ms before it sleeps: as long as an epoch of a few hundred small batches takes.
    """
    for _, library in _opened_libraries():
        with contextlib.suppress(AttributeError):  # it is no OpenBLAS
            library.blas_thread_shutdown_()
