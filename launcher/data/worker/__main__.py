"""`python -m launcher.data.worker`."""

import os
import sys

from launcher.data.worker.worker import main

if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The dispatcher's word ends the process; threads that wait on sockets need not.
    os._exit(code)
