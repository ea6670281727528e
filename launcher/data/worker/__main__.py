"""Entry point of `python -m launcher.data.worker`."""

import os
import sys

from launcher.data.worker.worker import main

if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Exit when the dispatcher closes, without waiting for threads that block on sockets.
    os._exit(code)
