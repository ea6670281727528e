"""Entry point of `python -m launcher.data.dataset_check`: a request on stdin, an answer in a file.

With the argument "again", the process prepares the samples of another one once more.
"""

import os
import sys

from launcher.data.dataset_check.checked_dataset import main

if __name__ == "__main__":
    code = main(sys.stdin.read(), again=sys.argv[1:] == ["again"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that the dataset started must not hold the answer back
