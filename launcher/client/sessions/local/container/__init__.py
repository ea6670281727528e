"""Hosts that are containers of Docker or Podman: the engine, images, and a host's container."""
