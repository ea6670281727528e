"""When this script began: import it first."""

import time

MOMENT = time.time()
