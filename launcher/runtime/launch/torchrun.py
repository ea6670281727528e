"""Runs torchrun over the train group and records how every rank ended.

`python -m launcher.runtime.launch.torchrun ARGUMENT...` takes torchrun's own arguments. torchrun's
command always exits with 1 and mentions signals only in its text output. Its library raises
ChildFailedError with each rank's exit status, which this module writes into a report for the host.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from torch.distributed import DistError, TCPStore, run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from launcher.runtime.host.processes import ignore_stop_signals
from launcher.runtime.host.report_files import REPORTS_VARIABLE, write_report
from launcher.shared import ADDRESSES_VARIABLE

#: Longest time in seconds that the leader's store outlives its torchrun, for the other hosts.
_STORE_TIMEOUT = 5.0
#: Connections that may wait; as many as torch's own store allows on Linux.
_BACKLOG = 4096
_EXITED = "launcher/exited"


def main() -> int:
    """Run torchrun with this process's arguments and return the exit code."""
    arguments = run.parse_args(sys.argv[1:])
    # At SIGTERM torchrun would give its ranks 30 s. The host signals them itself and gives 110 s.
    # Versions of torch without this argument always handle the signal.
    if hasattr(arguments, "signals_to_handle"):
        arguments.signals_to_handle = "SIGQUIT"
        ignore_stop_signals()
    # It would log that it ends the other ranks, and each rank's exit code. The host reports both.
    logging.getLogger("torch.distributed.elastic.multiprocessing").setLevel(logging.CRITICAL)
    store = _join_store(arguments) if arguments.node_rank == 0 else None
    try:
        run.run(arguments)
    except ChildFailedError as error:
        exits = {rank: failure.exitcode for rank, failure in error.failures.items()}
        # A full disk, or a stop request, after which the host has removed the reports' folder.
        with contextlib.suppress(OSError):
            write_report(Path(os.environ[REPORTS_VARIABLE]), "torchrun", exits)
        return 1
    _wait_for_other_hosts(arguments, store)
    return 0


def _join_store(arguments: argparse.Namespace) -> TCPStore:
    """Open the rendezvous store; on the leader this keeps alive the store its torchrun serves."""
    is_master = arguments.node_rank == 0
    open_store = partial(
        TCPStore,
        arguments.master_addr,
        int(arguments.master_port),
        is_master=is_master,
        timeout=timedelta(seconds=_STORE_TIMEOUT),
        wait_for_workers=False,
        multi_tenant=True,
    )
    if is_master and ADDRESSES_VARIABLE in os.environ:
        # By itself it would listen on all addresses of a machine that is no container.
        with contextlib.suppress(OSError, RuntimeError):  # the next call says it in torch's words
            return _on_one_address(open_store, arguments)
    return open_store()


def _on_one_address(open_store: Callable[..., TCPStore], arguments: argparse.Namespace) -> TCPStore:
    """Open a store on the leader's address alone; torchrun finds it by its port."""
    place = (arguments.master_addr, int(arguments.master_port))
    number = socket.create_server(place, backlog=_BACKLOG).detach()
    try:
        return open_store(master_listen_fd=number)
    except RuntimeError:
        os.close(number)
        raise


def _wait_for_other_hosts(arguments: argparse.Namespace, store: TCPStore | None) -> None:
    """Keep the leader's store alive until the other hosts no longer need it.

    torchrun's last barrier is in that store. Without this wait, slower hosts find the store
    closed and log long errors.
    """
    others = int(arguments.nnodes) - 1
    if others == 0:
        return
    with contextlib.suppress(DistError):  # the leader has exited and needs no message
        if store is None:
            _join_store(arguments).add(_EXITED, 1)
            return
        deadline = time.monotonic() + _STORE_TIMEOUT
        while store.add(_EXITED, 0) < others and time.monotonic() < deadline:
            time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
