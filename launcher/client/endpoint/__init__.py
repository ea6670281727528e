"""A SageMaker endpoint on this machine, where any AWS client can run training jobs.

`launcher endpoint` serves it; `serve` does so for the duration of a block, in its own process.
The server needs the extra `endpoint` (moto); importing this package does not load it.
"""

from __future__ import annotations

from launcher.client.endpoint.serving import ServedEndpoint, serve

__all__ = ["ServedEndpoint", "serve"]
