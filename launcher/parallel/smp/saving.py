"""`save` and `load`: torch's, with a file for each stage or one for all."""

from __future__ import annotations

from typing import Any

import torch

from launcher.parallel.smp.smp_session import session


def save(obj: object, f: str, partial: bool = True, **options: object) -> None:
    """Write a file for this rank's stage (`f` and its number), or one file from the first stage.

    Called by all ranks of one replica. options: of torch.save.
    """
    if partial or session().world.pp_rank == 0:
        torch.save(obj, _file(f, partial), **options)


def load(f: str, map_location: object = "cpu", partial: bool = True, **options: object) -> Any:
    """Read what `save` has written. options: of torch.load."""
    return torch.load(_file(f, partial), map_location=map_location, **options)


def _file(name: str, partial: bool) -> str:
    return f"{name}_{session().world.pp_rank}" if partial else name
