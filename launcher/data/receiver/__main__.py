"""Entry point of `python -m launcher.data.receiver`."""

import os

from launcher.data.receiver.receiver import main

if __name__ == "__main__":
    code = main()
    os._exit(code)  # threads blocked on sockets have nothing to finish
