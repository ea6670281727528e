"""torchrun over the train group, run so that the end of every rank is known.

`python -m launcher.runtime.torchrun ARGUMENT...` takes torchrun's own arguments. The torchrun
command itself always exits with 1 and tells about signals only in prose; its library raises
ChildFailedError with the exit status of each rank, which is left in a report for the host.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

from torch.distributed import DistError, TCPStore, run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from launcher.runtime.processes import ignore_stop_signals
from launcher.runtime.reports import REPORTS_VARIABLE, write_report

#: Seconds that the leader's store outlives its torchrun, at most, for those on other hosts.
_FAREWELL = 5.0
_LEFT = "launcher/left"


def main() -> int:
    arguments = run.parse_args(sys.argv[1:])
    # At SIGTERM torchrun would give its ranks 30 s; the host, which signals them itself, gives 110.
    # Versions of torch without this argument always take the signal.
    if hasattr(arguments, "signals_to_handle"):
        arguments.signals_to_handle = "SIGQUIT"
        ignore_stop_signals()
    store = _join_store(arguments) if arguments.node_rank == 0 else None
    try:
        run.run(arguments)
    except ChildFailedError as error:
        exits = {rank: failure.exitcode for rank, failure in error.failures.items()}
        # A full disk; or a host that was asked to stop, which reads no report and has removed them.
        with contextlib.suppress(OSError):
            write_report(Path(os.environ[REPORTS_VARIABLE]), "torchrun", exits)
        return 1
    _leave_together(arguments, store)
    return 0


def _join_store(arguments: argparse.Namespace) -> TCPStore:
    """The rendezvous store; on the leader it is the one that its torchrun serves, and keeps it."""
    return TCPStore(
        arguments.master_addr,
        int(arguments.master_port),
        is_master=arguments.node_rank == 0,
        timeout=timedelta(seconds=_FAREWELL),
        wait_for_workers=False,
        multi_tenant=True,
    )


def _leave_together(arguments: argparse.Namespace, store: TCPStore | None) -> None:
    """Let the leader's store live until the others have left it, as a race would not always.

    torchrun's last barrier is in that store, and those that find it gone complain at length.
    """
    others = int(arguments.nnodes) - 1
    if others == 0:
        return
    with contextlib.suppress(DistError):  # then the leader has gone, and needs no word
        if store is None:
            _join_store(arguments).add(_LEFT, 1)
            return
        deadline = time.monotonic() + _FAREWELL
        while store.add(_LEFT, 0) < others and time.monotonic() < deadline:
            time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
