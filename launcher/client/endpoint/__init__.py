"""A SageMaker endpoint on this machine, where any AWS client can run training jobs.

An extra at the edge of the product: only `launcher endpoint` imports it. `serve` runs it for the
duration of a block, in its own process. The server needs moto, which the extra `endpoint` of the
package installs; importing this package does not load it.
"""

from __future__ import annotations

from typing import Any

from launcher.client.endpoint.serving import ServedEndpoint, serve
from launcher.errors import PlatformError

__all__ = ["ServedEndpoint", "serve", "load_server"]


def load_server() -> Any:
    """Return the module `server`; raise PlatformError without the extra that it needs."""
    try:
        from launcher.client.endpoint import server
    except ModuleNotFoundError as error:
        raise PlatformError(
            f"launcher endpoint needs {error.name}, which is not installed: "
            "pip install 'hetero-launcher[endpoint]'"
        ) from error
    return server
