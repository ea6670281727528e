"""A process of the made-up data engine, which waits for its end."""

import signal

signal.sigwait({signal.SIGUSR1, signal.SIGTERM})
