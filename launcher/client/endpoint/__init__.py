"""A SageMaker endpoint on this machine, where any AWS client can run training jobs.

An extra at the edge of the product: only `launcher endpoint` imports it. `serve` runs it for the
duration of a block, in its own process. The server needs moto, which the extra `endpoint` of the
package installs; importing this package does not load it.
"""

from __future__ import annotations

from launcher.client.endpoint.serving import ServedEndpoint, serve

__all__ = ["ServedEndpoint", "serve"]
