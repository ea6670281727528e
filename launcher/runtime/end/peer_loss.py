"""Distinguishes the loss of another process from an error with a cause of its own.

A rank classifies its exception by type, in `is_peer_loss`. Reports without an exception (a process
that ended, a service, mpirun) are judged by their text, in `reads_like_peer_loss`.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator

from launcher.errors import SampleError

_PEER_LOST = re.compile(
    r"connection (closed|reset|refused|lost)|closed by peer|broken pipe|gloo|nccl|"
    r"DistBackendError|DistNetworkError|DistStoreError|recvValue|heartbeat|socket timeout|"
    r"RPC that terminated|"  # first line of gRPC's message for every server error
    r"(mpirun|\(orted\)) ended: exit code",  # they exit like this when a rank of any host fails
    re.IGNORECASE,
)
#: Built-in types that the loss of a peer has: gloo's errors and NCCL's older ones are RuntimeError.
_AMBIGUOUS = (RuntimeError, OSError, EOFError)


def reads_like_peer_loss(text: str) -> bool:
    """Return True if a text looks like the loss of another process."""
    return bool(_PEER_LOST.search(text))


def is_peer_loss(error: BaseException, text: str) -> bool:
    """Return True if an exception, or one that it was raised for, is the loss of another process.

    text: the line that names the error. It decides only for types that do not: RuntimeError,
    OSError, and types of libraries other than torch.distributed.
    """
    return _is_loss(error, text) or any(
        _is_loss(each, f"{type(each).__name__}: {each}") for each in _reasons(error)
    )


def _is_loss(error: BaseException, text: str) -> bool:
    distributed = sys.modules.get("torch.distributed")  # an image may have no torch
    if isinstance(error, getattr(distributed, "DistError", ())):
        return True
    if _is_unavailable(error):
        return True
    return not _is_own(error) and reads_like_peer_loss(text)


def _is_unavailable(error: BaseException) -> bool:
    """Return True for TensorFlow's error of a server that cannot be reached, or of its collectives.

    When a worker dies, the others get "Collective ops is aborted"; of a graph, below the first line
    of the message.
    """
    kind = type(error)
    return kind.__name__ == "UnavailableError" and kind.__module__.startswith("tensorflow.")


def _is_own(error: BaseException) -> bool:
    """Return True for a type that only the user's code and plain Python raise."""
    if isinstance(error, SampleError):  # raised by the user's dataset
        return True
    here = type(error).__module__ in (builtins.__name__, "__main__")
    return here and not isinstance(error, _AMBIGUOUS)


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions that led to this one, as a traceback shows them."""
    seen = {id(error)}
    reason: BaseException | None = error
    while reason is not None:
        reason = reason.__cause__ or (None if reason.__suppress_context__ else reason.__context__)
        if reason is None or id(reason) in seen:
            return
        seen.add(id(reason))
        yield reason
