"""Entry point of `python -m launcher.data.dispatcher`."""

import sys

from launcher.data.dispatcher.dispatcher import main

if __name__ == "__main__":
    sys.exit(main())
