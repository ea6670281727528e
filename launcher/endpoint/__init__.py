"""A SageMaker endpoint on this machine: any client of AWS runs training jobs here.

`launcher endpoint` serves it; `serve` does so for the length of a block, in a process of its own.
Its server needs the extra `endpoint` (moto); this door does not load it.
"""

from __future__ import annotations

from launcher.endpoint.serving import ServedEndpoint, serve

__all__ = ["ServedEndpoint", "serve"]
