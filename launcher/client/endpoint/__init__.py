"""A SageMaker endpoint on this machine, where any AWS client can run training jobs.

An extra at the edge of the product: only `launcher endpoint` imports it. `serve` runs it for the
duration of a block, in its own process. The server needs moto, which the extra `endpoint` of the
package installs; importing this package does not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.errors import PlatformError
from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.endpoint.authenticator import (
        SIGNED_CHUNKS,
        SIGNED_TRAILER,
        Authenticator,
        ChunkSigner,
        Secret,
        signed_length,
    )
    from launcher.client.endpoint.bounded_server import BoundedHandler, BoundedServer
    from launcher.client.endpoint.job_operations import with_aws_defaults
    from launcher.client.endpoint.job_search import search_jobs
    from launcher.client.endpoint.listing import encode_token, list_jobs_page
    from launcher.client.endpoint.operations import parse_input, to_output
    from launcher.client.endpoint.responses import ApiError
    from launcher.client.endpoint.server import Setup, open_endpoint
    from launcher.client.endpoint.serving import ServedEndpoint, serve
    from launcher.client.endpoint.signature import Scope, credential_of

__all__ = ["ServedEndpoint", "serve"]

__getattr__ = open_door(__name__)


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
