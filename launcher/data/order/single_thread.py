"""One thread for numerical libraries while dataset code runs in the script's process.

Data workers run one process for each CPU, so their libraries use one thread. A sum, a product of
matrices or a convolution on two threads adds in another order and differs in its last bits. While
this process prepares a batch, torch, OpenBLAS and MKL therefore use one thread here, too. Only
`copying_threads` lets torch stack large samples with more.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from launcher.data.batches.copying_threads import torch_threads

#: The functions of a library that return and set its number of threads.
_FUNCTIONS = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)
_T = TypeVar("_T")
_LIBRARY = re.compile(r"(/\S*(?:openblas|mkl_rt)\S*)$", re.MULTILINE)


class OneThread:
    """A context in which numerical libraries use one thread, for use again and again."""

    def __init__(self) -> None:
        self._modules = 0
        self._has_torch = False  # its functions are then the last ones
        self._libraries: list[tuple[Callable[[], int], Callable[[int], object]]] = []
        self._before: list[int] = []

    def __enter__(self) -> OneThread:
        if len(sys.modules) != self._modules:  # a library may have been loaded since
            self._find_libraries()
        self._before = [
            _change(get_count, set_count, 1) for get_count, set_count in self._libraries
        ]
        if self._has_torch:
            torch_threads.set(self._before[-1])
        return self

    def __exit__(self, *_: object) -> None:
        torch_threads.set(1)
        for library, count in zip(self._libraries, self._before, strict=True):
            _change(*library, count)

    def call(self, function: Callable[[], _T]) -> _T:
        """Call a function within this context; again if it loads a library, which has its threads.

        So a batch is the same whether this process had the library before or not.
        """
        result = function()
        if len(sys.modules) == self._modules:
            return result
        count = len(self._libraries)
        self.__exit__()
        self.__enter__()
        return result if len(self._libraries) == count else function()

    def _find_libraries(self) -> None:
        self._modules = len(sys.modules)
        self._libraries = list(_blas_libraries())
        if (torch := sys.modules.get("torch")) is not None:
            self._has_torch = True
            self._libraries.append((torch.get_num_threads, torch.set_num_threads))


def _change(get_count: Callable[[], int], set_count: Callable[[int], object], count: int) -> int:
    """Set a number of threads where it differs, and return the one before."""
    before = get_count()
    if before != count:
        set_count(count)
    return before


def _blas_libraries() -> Iterator[tuple[Callable[[], int], Callable[[int], object]]]:
    """Yield the functions of each library for linear algebra that this process has loaded."""
    try:
        loaded = set(_LIBRARY.findall(Path("/proc/self/maps").read_text()))
    except OSError:  # no Linux
        return
    for path in sorted(loaded):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            for get_name, set_name in _FUNCTIONS:
                if hasattr(library, get_name) and hasattr(library, set_name):
                    yield getattr(library, get_name), getattr(library, set_name)
                    break
