"""SDK v2's text of options for mpirun."""

from __future__ import annotations

import shlex


def split_mpi_options(text: str) -> list[str]:
    """Split it; its --NCCL_DEBUG, which mpirun does not know, becomes an exported variable.

    >>> split_mpi_options("--NCCL_DEBUG WARN --mca btl_tcp_links 4")
    ['-x', 'NCCL_DEBUG=WARN', '--mca', 'btl_tcp_links', '4']
    """
    words = shlex.split(text)
    while "--NCCL_DEBUG" in words[:-1]:
        place = words.index("--NCCL_DEBUG")
        words[place : place + 2] = ["-x", f"NCCL_DEBUG={words[place + 1]}"]
    return words
