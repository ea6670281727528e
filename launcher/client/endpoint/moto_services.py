"""moto's services, each reached by the name that its request was signed for."""

from __future__ import annotations

from typing import Any

from moto.server import DomainDispatcherApplication

from launcher.client.endpoint.signature import Scope

#: Where a request has its signed scope.
SCOPE = "launcher.scope"


class MotoServices(DomainDispatcherApplication):  # type: ignore[misc]  # moto's types are not read
    """Dispatches by the signed scope.

    By itself moto goes by the path too: to its own /moto-api, to /latest/meta-data/, and for URLs
    that are signed in their query to any service that a path or a body names.
    """

    def get_application(self, environ: dict[str, Any]) -> Any:
        """Return the application of the service that the request was signed for."""
        scope: Scope = environ[SCOPE]
        backend = self.get_backend_for_host(f"{scope.service}.{scope.region}.amazonaws.com")
        with self.lock:
            if backend not in self.app_instances:
                self.app_instances[backend] = self.create_app(backend)
            return self.app_instances[backend]
