"""Run a data host's node of the Ray cluster until training ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from cluster import start_node

node = start_node(cpus=int(os.environ["SM_NUM_CPUS"]))
signal.signal(signal.SIGTERM, lambda *_: node.terminate())
Path("ready").touch()  # training starts when all data hosts have written this
for line in node.stdout:
    print(line, end="", flush=True)
code = node.wait()
print("closed", flush=True)
sys.exit(code)
